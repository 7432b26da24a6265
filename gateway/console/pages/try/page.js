/** Try a change: what would be told differently if drafts were published, before they are. */
import {html, nothing, repeat} from "../../vendor/lit.js";
import {get, getAll} from "../../lib/api.js";
import {formatAge} from "../../lib/format.js";
import {t} from "../../lib/i18n.js";
import {at, replaceAddress} from "../../lib/router.js";
import {allows, getState, notify} from "../../lib/state.js";
import {ConsoleElement, Loader} from "../../ui/element.js";
import {icon} from "../../ui/icon.js";
import {emptyState, noticeBox, pageHead, tabList} from "../../ui/parts.js";
import {compareCase, listQuestions, listReceipts, runSavedCases} from "./cases.js";
import {renderFigures} from "./figures.js";
import "./result.js";
import {saveCase} from "./saved-cases.js";

const AT_ONCE = 4;
const SHOWN = 100; // results at first, and how many more at a time
const ORDER = ["changed", "failed", "waiting", "same"];

export class TryPage extends ConsoleElement {
  static properties = {query: {attribute: false}, chosen: {state: true}, results: {state: true}, savedResults: {state: true}, shown: {state: true}, figures: {state: true}, busy: {state: true}, tab: {state: true}};

  constructor() {
    super();
    /** @type {URLSearchParams} */
    this.query = new URLSearchParams();
    /** @type {Set<string>} names of drafts, such as contexts/seo */
    this.chosen = new Set();
    /** @type {import("./cases.js").CaseResult[]} */
    this.results = [];
    /** @type {any} */
    this.figures = null;
    /** @type {import("./cases.js").CaseResult[]} of saved cases, while they are run */
    this.savedResults = [];
    this.waiting = 0; // saved cases that were not run yet
    this.shown = SHOWN;
    this.busy = false;
    this.tab = "compare";
    this.questions = "";
    this.agent = "";
    this.useSaved = true;
    this.count = 20;
    /** @type {string[]} the drafts that the results are about */
    this.compared = [];
    this.loader = new Loader(this, (signal) => this.load(signal));
  }

  connectedCallback() {
    super.connectedCallback();
    this.loader.run();
  }

  /** @param {Map<string, unknown>} changed */
  willUpdate(changed) {
    if (changed.has("query")) this.tab = this.query.get("tab") === "saved" ? "saved" : "compare";
  }

  /** @param {string} tab */
  choose(tab) {
    this.tab = tab;
    replaceAddress(tab === "saved" ? "/try?tab=saved" : "/try");
  }

  /** @param {AbortSignal} signal */
  async load(signal) {
    const [drafts, agents, saved] = await Promise.all([get("drafts", {take: 1000}, signal), getAll("agents").catch(() => []), get("evaluation-cases", {take: 1}, signal)]);
    const named = this.query.get("draft");
    this.chosen = new Set(drafts.items.map(nameDraft).filter((/** @type {string} */ name) => !named || name === named));
    return {drafts: drafts.items, agents, saved: saved.total};
  }

  /** @param {Event} event */
  async run(event) {
    event.preventDefault();
    this.busy = true;
    [this.results, this.savedResults, this.figures, this.shown] = [[], [], null, SHOWN];
    this.waiting = this.useSaved ? this.loader.data?.saved || 0 : 0;
    this.compared = [...this.chosen];
    try {
      await this.compareAll(this.compared);
    } catch (/** @type {any} */ error) {
      notify("bad", error.errors?.[0]?.message || error.message);
    }
    this.results = this.results.toSorted((one, other) => ORDER.indexOf(one.state) - ORDER.indexOf(other.state));
    this.busy = false;
  }

  /** Compares what was typed in and receipts one by one, a few at a time, so that results appear as they come. @param {string[]} drafts */
  async compareAll(drafts) {
    const cases = [...listQuestions(this.questions, this.agent), ...(await listReceipts(this.count))];
    this.results = cases.map((one) => ({...one, state: /** @type {const} */ ("waiting")}));
    let next = 0;
    const work = async () => {
      while (next < cases.length && this.isConnected) {
        const index = next++;
        const result = await compareCase(cases[index], drafts);
        this.results = this.results.with(index, result);
      }
    };
    const saved = this.useSaved && this.loader.data?.saved ? runSavedCases(drafts, (run) => this.showSaved(run)) : null;
    await Promise.all([...Array.from({length: AT_ONCE}, work), saved]);
    this.results = [...this.savedResults, ...this.results];
    this.savedResults = [];
  }

  /** @param {import("./cases.js").SavedRun} run */
  showSaved(run) {
    this.figures = run.figures;
    this.savedResults = run.results;
    this.waiting = run.total - run.results.length;
    return this.isConnected;
  }

  /** @param {import("./cases.js").CaseResult} result */
  async keep(result) {
    const known = {question: result.title, agent: result.side.context?.agent};
    if (await saveCase(known, this.loader.data?.agents || [])) this.loader.data = {.../** @type {any} */ (this.loader.data), saved: (this.loader.data?.saved || 0) + 1};
    this.requestUpdate();
  }

  render() {
    return html`<div class="page">${pageHead(t("Try a change"), {lead: t("See what models would be told differently if drafts were published. No model is called.")})}
      ${this.loader.render(({drafts, agents, saved}) => html`${tabList([["compare", t("Compare")], ["saved", html`${t("Saved cases")}<span class="count">${saved}</span>`]], this.tab, (id) => this.choose(id), t("Try a change"))}
        <div role="tabpanel" aria-labelledby="tab-${this.tab}">${this.tab === "saved" ? html`<saved-cases .agents=${agents} @changed=${() => this.loader.run()}></saved-cases>` : this.renderCompare(drafts, agents, saved)}</div>`)}</div>`;
  }

  /** @param {any[]} drafts @param {any[]} agents @param {number} saved */
  renderCompare(drafts, agents, saved) {
    if (drafts.length) return html`<div class="stack">${this.renderForm(drafts, agents, saved)}${this.renderResults()}</div>`;
    return html`<div class="card">${emptyState("flask-conical", t("No drafts"), t("Change a context, an agent, a profile or a prompt and save it as a draft; then come back."), html`<a class="button primary" href=${at("/contexts")}>${icon("layers")}${t("Open contexts")}</a>`)}</div>`;
  }

  /** @param {any[]} drafts @param {any[]} agents @param {number} saved */
  renderForm(drafts, agents, saved) {
    const toggle = (/** @type {string} */ name, /** @type {boolean} */ on) => {
      const chosen = new Set(this.chosen);
      if (on) chosen.add(name);
      else chosen.delete(name);
      this.chosen = chosen;
    };
    return html`<form class="card padded split even" @submit=${this.run}>
      <fieldset class="stack tight"><legend class="label">${t("Drafts")}</legend>${drafts.map((draft) => html`<label class="check"><input type="checkbox" .checked=${this.chosen.has(nameDraft(draft))} @change=${(/** @type {any} */ event) => toggle(nameDraft(draft), event.target.checked)}>
        <span><code>${nameDraft(draft)}</code> <span class="muted">${formatAge(draft.updated_at)} · ${draft.updated_by}</span></span></label>`)}</fieldset>
      <div class="stack"><div class="field"><label class="check"><input type="checkbox" ?disabled=${!saved} .checked=${this.useSaved && saved > 0} @change=${(/** @type {any} */ event) => { this.useSaved = event.target.checked; }}> ${t("The {n} saved case|The {n} saved cases", {n: saved})}</label>
          ${saved ? nothing : html`<span class="hint">${t("None yet: save questions and what each should get under Saved cases.")}</span>`}</div>
        ${allows("admin") ? html`<div class="field"><label for="try-count">${t("Requests of the last receipts")}</label><input id="try-count" type="number" min="0" max="200" .value=${String(this.count)} @input=${(/** @type {any} */ event) => { this.count = Number(event.target.value); }}>
          ${getState().identity?.features.receipt_text ? nothing : html`<span class="hint">${t("Receipts keep no texts here, so only what does not depend on the question can be compared.")}</span>`}</div>` : nothing}
        <div class="field"><label for="try-questions">${t("Questions of your own")}</label><textarea id="try-questions" rows="3" placeholder=${t("One per line")} .value=${this.questions} @input=${(/** @type {any} */ event) => { this.questions = event.target.value; }}></textarea></div>
        <div class="field"><label for="try-agent">${t("Ask as agent")}</label><select id="try-agent" @change=${(/** @type {any} */ event) => { this.agent = event.target.value; }}><option value="">–</option>${agents.map((one) => html`<option value=${one.alias} ?selected=${one.alias === this.agent}>${one.name || one.alias}</option>`)}</select></div>
        <div><button class="button primary" ?disabled=${this.busy || !this.chosen.size}>${icon("flask-conical")}${this.busy ? t("Comparing…") : t("Compare")}</button></div></div></form>`;
  }

  renderResults() {
    const all = [...this.savedResults, ...this.results];
    const total = all.length + (this.busy ? this.waiting : 0);
    if (!total) return nothing;
    const done = all.filter((one) => one.state !== "waiting");
    const changed = done.filter((one) => one.state === "changed").length;
    const failed = done.filter((one) => one.state === "failed").length;
    if (this.busy) return html`<div role="status">${noticeBox("info", t("{n} of {total} compared so far…", {n: done.length, total}))}</div>${this.renderList(all)}`;
    return html`<div role="status">${noticeBox(changed ? "warn" : "good", html`<strong>${t("{n} of {total} would be told something else.", {n: changed, total: done.length})}</strong> ${failed ? t("{n} could not be compared.", {n: failed}) : ""}`)}</div>
      ${renderFigures(this.figures, all)}${this.renderList(all)}`;
  }

  /** @param {import("./cases.js").CaseResult[]} results */
  renderList(results) {
    const more = results.length - this.shown;
    return html`<div class="stack tight">${repeat(results.slice(0, this.shown), (result) => result.side, (result) => html`<try-result .result=${result} .drafts=${this.compared} @keep=${() => this.keep(result)}></try-result>`)}
      ${more > 0 ? html`<div><button class="button" @click=${() => { this.shown += SHOWN; }}>${t("Show {n} more…", {n: Math.min(more, SHOWN)})}</button> <span class="muted">${t("{n} of {total} are shown.", {n: this.shown, total: results.length})}</span></div>` : nothing}</div>`;
  }
}
customElements.define("try-page", TryPage);

/** @param {any} draft */
const nameDraft = (draft) => `${draft.kind}/${draft.alias}`;
