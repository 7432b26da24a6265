/** One receipt: the context, what happened, the exact request, and what would be sent now. */
import {html, nothing} from "../../vendor/lit.js";
import {call, encode, get, post} from "../../lib/api.js";
import {formatCost, formatNumber, formatSeconds, formatTime} from "../../lib/format.js";
import {t} from "../../lib/i18n.js";
import {at, navigate} from "../../lib/router.js";
import {notify} from "../../lib/state.js";
import {confirmAction} from "../../ui/dialog.js";
import {ConsoleElement, Loader} from "../../ui/element.js";
import {icon} from "../../ui/icon.js";
import {hrefOfSession, pageHead, tabList} from "../../ui/parts.js";
import "../../ui/view-context.js";
import {statusBadge} from "./parts.js";
import "./receipt-diff.js";
import {renderTimeline} from "./timeline.js";

export class ReceiptPage extends ConsoleElement {
  static properties = {receipt: {}, tab: {state: true}};

  constructor() {
    super();
    this.receipt = "";
    this.tab = "context";
    this.loader = new Loader(this, (signal) => get(`receipts/${encode(this.receipt)}`, {}, signal));
    this.request = new Loader(this, () => post(`receipts/${encode(this.receipt)}/replay`, {as_of: "receipt"}));
  }

  /** @param {Map<string, unknown>} changed */
  willUpdate(changed) {
    if (changed.has("receipt") && this.receipt) this.loader.run();
  }

  /** @param {string} tab */
  choose(tab) {
    this.tab = tab;
    if (tab === "request" && !this.request.data) this.request.run();
  }

  async deleteObject() {
    if (!(await confirmAction(t("Delete this receipt?"), t("It cannot be restored."), {label: t("Delete"), danger: true}))) return;
    await call("DELETE", `receipts/${encode(this.receipt)}`);
    notify("good", t("Deleted."));
    navigate("/receipts");
  }

  render() {
    return html`<div class="page">${this.loader.render((receipt) => html`${pageHead(receipt.agent || receipt.model || t("Receipt"), {
        crumbs: [[t("Receipts"), "/receipts"]], badges: statusBadge(receipt), lead: html`${formatTime(receipt.at)} · <code>${receipt.id}</code>`,
        actions: html`<button class="button danger" @click=${this.deleteObject}>${icon("trash")}${t("Delete")}</button>`,
      })}
      ${renderFacts(receipt)}
      ${tabList([["context", t("Context")], ["timeline", t("What happened")], ["request", t("Exact request")], ["answer", t("Texts")], ["diff", t("Compare with now")]], this.tab, (id) => this.choose(id), t("Parts of the receipt"))}
      <div role="tabpanel" aria-labelledby="tab-${this.tab}">${this.renderTab(receipt)}</div>`)}</div>`;
  }

  /** @param {any} receipt */
  renderTab(receipt) {
    if (this.tab === "timeline") return html`<section class="card padded">${renderTimeline(receipt)}</section>`;
    if (this.tab === "answer") return renderTexts(receipt.text);
    if (this.tab === "diff") return html`<receipt-diff .receipt=${receipt}></receipt-diff>`;
    if (this.tab === "request") return this.request.render((result) => html`<pre class="code" tabindex="0" aria-label=${t("Exact request")}>${JSON.stringify(result.request, null, 2)}</pre>`);
    return html`<view-context .exchange=${receipt}></view-context>`;
  }
}
customElements.define("receipt-page", ReceiptPage);

/** @param {any} receipt */
function renderFacts(receipt) {
  const facts = [
    [t("Model"), receipt.model], [t("Upstream"), receipt.upstream], [t("Content"), receipt.content], [t("Session"), receipt.session], [t("Prompt"), receipt.prompt], [t("Key"), receipt.principal],
    [t("User"), receipt.user], [t("Duration"), formatSeconds(receipt.seconds)], [t("Tokens"), receipt.usage ? `${formatNumber(receipt.usage.prompt_tokens)} + ${formatNumber(receipt.usage.completion_tokens)}` : null],
    [t("Cost"), receipt.cost === null ? null : formatCost(receipt.cost)],
  ].filter(([, value]) => value);
  return html`<dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${name === t("Session") ? html`<a href=${at(hrefOfSession(String(value)))}>${value}</a>` : value}</dd></div>`)}</dl>
    ${receipt.warnings?.length ? html`<p class="soft">${icon("triangle-alert")} ${receipt.warnings.map((/** @type {any} */ one) => one.message || one.code || one).join(" ")}</p>` : nothing}`;
}

/** @param {any} text */
function renderTexts(text) {
  if (!text) return html`<section class="card padded"><p class="muted">${t("Texts are not kept. The operator can switch that on with receipts.text.")}</p></section>`;
  return html`<div class="stack">${[[t("Request"), text.request], [t("What was added"), text.blocks], [t("Answer"), text.answer]].map(([title, body]) => body ? html`<section class="card"><div class="card-head"><h2>${title}</h2></div>
    <div class="card-body"><pre class="code" tabindex="0" aria-label=${title}>${prettify(body)}</pre></div></section>` : nothing)}</div>`;
}

/** @param {string} text */
function prettify(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
