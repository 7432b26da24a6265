/** `<try-result>`: one request before and after; what differs is fetched when it is opened. Sends `keep` to save a question. */
import {html, nothing} from "../../vendor/lit.js";
import {formatNumber, formatScore} from "../../lib/format.js";
import {t} from "../../lib/i18n.js";
import {ConsoleElement, Loader} from "../../ui/element.js";
import {icon} from "../../ui/icon.js";
import {renderDifference} from "../../ui/request-diff.js";
import {compareSides} from "./cases.js";

export class TryResult extends ConsoleElement {
  static properties = {result: {attribute: false}, drafts: {attribute: false}};

  constructor() {
    super();
    /** @type {import("./cases.js").CaseResult | null} */
    this.result = null;
    /** @type {string[]} */
    this.drafts = [];
    this.loader = new Loader(this, async () => this.result?.diff ?? (await compareSides(this.result?.side ?? {}, this.drafts)));
  }

  /** @param {any} event */
  toggle(event) {
    if (event.target.open && !this.loader.data) this.loader.run();
  }

  render() {
    const {result} = this;
    if (!result) return nothing;
    const wrong = describeMistakes(result.outcome);
    if (result.state !== "changed" && !wrong.length) return html`<div class="card case-row row">${this.renderHead(result)}${result.error ? html`<span class="hint">${result.error}</span>` : nothing}${this.renderKeep(result)}</div>`;
    return html`<details class="card" @toggle=${this.toggle}><summary class="case-row row">${this.renderHead(result)}</summary><div class="card-body stack">
      ${wrong.length ? html`<ul class="line-list">${wrong.map((one) => html`<li><span class="badge ${one.kind}">${one.label}</span><code>${one.id}</code><span class="grow muted">${one.change}</span></li>`)}</ul>` : nothing}
      ${result.state === "changed" ? this.loader.render((diff) => renderDifference(diff)) : nothing}${this.renderKeep(result)}</div></details>`;
  }

  /** @param {import("./cases.js").CaseResult} result */
  renderHead(result) {
    const badges = {waiting: html`<span class="spinner"></span>`, same: html`<span class="badge good">${t("same")}</span>`, changed: html`<span class="badge warn">${t("changed")}</span>`, failed: html`<span class="badge">${t("not compared")}</span>`};
    const tokens = result.tokens ? result.tokens.to - result.tokens.from : 0;
    return html`${badges[result.state]}<strong class="truncate grow">${result.title}</strong>${renderOutcome(result.outcome)}<span class="muted">${result.note}</span>
      ${tokens ? html`<span class="numeric muted">${tokens > 0 ? "+" : ""}${formatNumber(tokens)} ${t("tokens")}</span>` : nothing}`;
  }

  /** @param {import("./cases.js").CaseResult} result */
  renderKeep(result) {
    if (!result.typed || result.state === "waiting") return nothing;
    return html`<button class="button small" @click=${() => this.dispatchEvent(new CustomEvent("keep"))}>${icon("save")}${t("Save as case")}</button>`;
  }
}
customElements.define("try-result", TryResult);

/** @param {any} outcome */
function renderOutcome(outcome) {
  if (!outcome) return nothing;
  const name = (/** @type {boolean} */ right) => (right ? t("right") : t("wrong"));
  const {from, to} = outcome;
  if (from.right === to.right) return html`<span class="badge ${to.right ? "good" : "bad"}">${name(to.right)}</span>`;
  return html`<span class="badge ${to.right ? "good" : "bad"}">${name(from.right)} → ${name(to.right)}</span>`;
}

/** What would be wrong with the drafts, and what would help. @param {any} outcome @returns {{id: string, kind: string, label: string, change: string}[]} */
function describeMistakes(outcome) {
  if (!outcome) return [];
  const scored = (/** @type {any} */ one) => (typeof one.score === "number" ? `${formatScore(one.score)}: ` : "") + one.change;
  return [
    ...outcome.to.missed.map((/** @type {any} */ one) => ({id: one.id, kind: "bad", label: t("missed"), change: scored(one)})),
    ...outcome.to.unexpected.map((/** @type {any} */ one) => ({id: one.id, kind: "warn", label: t("unexpected"), change: scored(one)})),
  ];
}
