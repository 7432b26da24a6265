/** Try a change: what would be told differently if drafts were published, before they are. */
import {html, nothing} from "../../vendor/lit.js";
import {get, getAll} from "../../lib/api.js";
import {formatAge, formatNumber} from "../../lib/format.js";
import {t} from "../../lib/i18n.js";
import {at} from "../../lib/router.js";
import {allows, getState} from "../../lib/state.js";
import {ConsoleElement, Loader} from "../../ui/element.js";
import {icon} from "../../ui/icon.js";
import {emptyState, noticeBox, pageHead} from "../../ui/parts.js";
import {renderDifference} from "../../ui/request-diff.js";
import {compareCase, listCases} from "./cases.js";

const AT_ONCE = 4;

export class TryPage extends ConsoleElement {
  static properties = {query: {attribute: false}, chosen: {state: true}, results: {state: true}, busy: {state: true}};

  constructor() {
    super();
    /** @type {URLSearchParams} */
    this.query = new URLSearchParams();
    /** @type {Set<string>} names of drafts, such as contexts/seo */
    this.chosen = new Set();
    /** @type {import("./cases.js").CaseResult[]} */
    this.results = [];
    this.busy = false;
    this.questions = "";
    this.agent = "";
    this.count = 20;
    this.loader = new Loader(this, (signal) => this.load(signal));
  }

  connectedCallback() {
    super.connectedCallback();
    this.loader.run();
  }

  /** @param {AbortSignal} signal */
  async load(signal) {
    const [drafts, agents] = await Promise.all([get("drafts", {take: 1000}, signal), getAll("agents").catch(() => [])]);
    const named = this.query.get("draft");
    this.chosen = new Set(drafts.items.map(nameDraft).filter((/** @type {string} */ name) => !named || name === named));
    return {drafts: drafts.items, agents};
  }

  /** Compares case by case, a few at a time, so that results appear as they come. @param {Event} event */
  async run(event) {
    event.preventDefault();
    this.busy = true;
    const drafts = [...this.chosen];
    const cases = await listCases(this.count, this.questions, this.agent);
    this.results = cases.map((one) => ({...one, state: /** @type {const} */ ("waiting")}));
    let next = 0;
    const work = async () => {
      while (next < cases.length && this.isConnected) {
        const index = next++;
        const result = await compareCase(cases[index], drafts);
        this.results = this.results.with(index, result);
      }
    };
    await Promise.all(Array.from({length: AT_ONCE}, work));
    this.busy = false;
  }

  render() {
    return html`<div class="page">${pageHead(t("Try a change"), {lead: t("See what models would be told differently if drafts were published. No model is called.")})}
      ${this.loader.render(({drafts, agents}) => drafts.length ? html`${this.renderForm(drafts, agents)}${this.renderResults()}`
        : html`<div class="card">${emptyState("flask-conical", t("No drafts"), t("Change a context, an agent, a profile or a prompt and save it as a draft; then come back."), html`<a class="button primary" href=${at("/contexts")}>${icon("layers")}${t("Open contexts")}</a>`)}</div>`)}</div>`;
  }

  /** @param {any[]} drafts @param {any[]} agents */
  renderForm(drafts, agents) {
    const toggle = (/** @type {string} */ name, /** @type {boolean} */ on) => {
      const chosen = new Set(this.chosen);
      if (on) chosen.add(name);
      else chosen.delete(name);
      this.chosen = chosen;
    };
    return html`<form class="card padded split even" @submit=${this.run}>
      <fieldset class="stack tight"><legend class="label">${t("Drafts")}</legend>${drafts.map((draft) => html`<label class="check"><input type="checkbox" .checked=${this.chosen.has(nameDraft(draft))} @change=${(/** @type {any} */ event) => toggle(nameDraft(draft), event.target.checked)}>
        <span><code>${nameDraft(draft)}</code> <span class="muted">${formatAge(draft.updated_at)} · ${draft.updated_by}</span></span></label>`)}</fieldset>
      <div class="stack">${allows("admin") ? html`<div class="field"><label for="try-count">${t("Requests of the last receipts")}</label><input id="try-count" type="number" min="0" max="200" .value=${String(this.count)} @input=${(/** @type {any} */ event) => { this.count = Number(event.target.value); }}>
          ${getState().identity?.features.receipt_text ? nothing : html`<span class="hint">${t("Receipts keep no texts here, so only what does not depend on the question can be compared.")}</span>`}</div>` : nothing}
        <div class="field"><label for="try-questions">${t("Questions of your own")}</label><textarea id="try-questions" rows="3" placeholder=${t("One per line")} @input=${(/** @type {any} */ event) => { this.questions = event.target.value; }}></textarea></div>
        <div class="field"><label for="try-agent">${t("Ask as agent")}</label><select id="try-agent" @change=${(/** @type {any} */ event) => { this.agent = event.target.value; }}><option value="">–</option>${agents.map((one) => html`<option value=${one.alias}>${one.name || one.alias}</option>`)}</select></div>
        <div><button class="button primary" ?disabled=${this.busy || !this.chosen.size}>${icon("flask-conical")}${this.busy ? t("Comparing…") : t("Compare")}</button></div></div></form>`;
  }

  renderResults() {
    if (!this.results.length) return nothing;
    const done = this.results.filter((one) => one.state !== "waiting");
    const changed = done.filter((one) => one.state === "changed").length;
    const failed = done.filter((one) => one.state === "failed").length;
    return html`<div aria-live="polite">${noticeBox(changed ? "warn" : "good", html`<strong>${t("{n} of {total} would be told something else.", {n: changed, total: done.length})}</strong> ${failed ? t("{n} could not be compared.", {n: failed}) : ""}`)}</div>
      <div class="stack tight">${this.results.map((result) => this.renderResult(result))}</div>`;
  }

  /** @param {import("./cases.js").CaseResult} result */
  renderResult(result) {
    const badges = {waiting: html`<span class="spinner"></span>`, same: html`<span class="badge good">${t("same")}</span>`, changed: html`<span class="badge warn">${t("changed")}</span>`, failed: html`<span class="badge">${t("not compared")}</span>`};
    const tokens = result.diff ? (result.diff.tokens.total.to ?? 0) - (result.diff.tokens.total.from ?? 0) : 0;
    const head = html`${badges[result.state]}<strong class="truncate grow">${result.title}</strong><span class="muted">${result.note}</span>${tokens ? html`<span class="numeric muted">${tokens > 0 ? "+" : ""}${formatNumber(tokens)} ${t("tokens")}</span>` : nothing}`;
    if (result.state !== "changed") return html`<div class="card case-row row">${head}${result.error ? html`<span class="hint">${result.error}</span>` : nothing}</div>`;
    return html`<details class="card"><summary class="case-row row">${head}</summary><div class="card-body">${renderDifference(result.diff)}</div></details>`;
  }
}
customElements.define("try-page", TryPage);

/** @param {any} draft */
const nameDraft = (draft) => `${draft.kind}/${draft.alias}`;
