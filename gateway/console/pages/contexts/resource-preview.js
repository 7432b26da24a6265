/** `<resource-preview>`: what the model will read, how many tokens that is, and whether a question would find it. */
import {html, nothing} from "../../vendor/lit.js";
import {encode, post} from "../../lib/api.js";
import {formatScore} from "../../lib/format.js";
import {t} from "../../lib/i18n.js";
import {ConsoleElement, debounce} from "../../ui/element.js";
import {icon} from "../../ui/icon.js";
import {cleanResource} from "../../ui/working-copy.js";

export class ResourcePreview extends ConsoleElement {
  static properties = {context: {}, resource: {attribute: false}, type: {attribute: false}, saved: {attribute: false}, shown: {state: true}, error: {state: true}, found: {state: true}, busy: {state: true}};

  constructor() {
    super();
    this.context = "";
    /** @type {any} */
    this.resource = null;
    /** @type {any} */
    this.type = null;
    /** @type {any} */
    this.saved = null;
    /** @type {any} */
    this.shown = null;
    this.error = "";
    /** @type {any} */
    this.found = null;
    this.busy = false;
    this.refresh = debounce(() => this.load(), 300);
    this.asked = "";
  }

  /** @param {Map<string, unknown>} changed */
  willUpdate(changed) {
    if (changed.has("resource")) this.refresh();
  }

  async load() {
    const resource = this.resource;
    const body = JSON.stringify(resource);
    if (!resource || resource.data?.path || body === this.asked) return;
    this.asked = body;
    if (isBlank(resource.data)) {
      [this.shown, this.error] = [null, ""]; // nobody has typed anything yet: that is no fault
      return;
    }
    try {
      const shown = await post(`contexts/${encode(this.context)}/preview`, {resource: cleanResource(resource)});
      if (this.asked === body) [this.shown, this.error] = [shown, ""];
    } catch (/** @type {any} */ error) {
      if (this.asked === body) this.error = error.errors?.[0]?.message || error.message;
    }
  }

  /** @param {SubmitEvent} event */
  async tryQuestion(event) {
    event.preventDefault();
    const question = String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("question"));
    this.busy = true;
    try {
      this.found = await post(`contexts/${encode(this.context)}/find`, {resource: cleanResource(this.resource), questions: [question]});
      this.found.error = "";
    } catch (/** @type {any} */ error) {
      this.found = {error: error.message};
    }
    this.busy = false;
  }

  render() {
    return html`<div class="stack"><section class="card"><div class="card-head"><h2>${t("What the model reads")}</h2>
        ${this.shown ? html`<span class="badge accent numeric">${t("{n} token|{n} tokens", {n: this.shown.tokens})}</span>` : nothing}</div>
      <div class="card-body stack tight" aria-live="polite">${this.error ? html`<span class="fault">${icon("circle-alert")} ${this.error}</span>` : nothing}
        ${this.shown ? html`<pre class="code preview" tabindex="0" aria-label=${t("Preview")}>${this.shown.text}</pre>` : this.error ? nothing : html`<p class="muted">${this.explainAbsence()}</p>`}</div></section>
      ${this.renderTryOut()}</div>`;
  }

  /** Why there is no text yet. */
  explainAbsence() {
    const {data} = this.resource || {};
    if (data?.path) return t("The text is in the file {path}.", {path: data.path});
    return isBlank(data) ? t("Fill in the form; the text appears here.") : t("Loading…");
  }

  renderTryOut() {
    return html`<section class="card"><div class="card-head"><h2>${t("Would this be found?")}</h2></div><div class="card-body stack">
      <form class="row" @submit=${this.tryQuestion}><input class="grow" name="question" required aria-label=${t("A question")} placeholder=${t("Ask what a user would ask")} .value=${this.resource?.examples?.[0] || ""}>
        <button class="button" ?disabled=${this.busy}>${icon("search")}${t("Try")}</button></form>
      <div aria-live="polite">${this.found?.error ? html`<span class="fault">${this.found.error}</span>` : this.found ? this.renderFound(this.found) : html`<p class="hint">${t("Searches with this text, saved or not, among everything in the context.")}</p>`}</div></div></section>`;
  }

  /** @param {any} found */
  renderFound(found) {
    return found.items.map((/** @type {any} */ one) => html`<div class="stack tight"><div class="row"><span class="badge ${one.found ? "good" : "warn"}">${one.found ? t("Yes, it would be placed") : t("No")}</span>
      ${one.score === null || one.score === undefined ? nothing : html`<span class="badge numeric">${t("score")} ${formatScore(one.score)}</span>`}${one.threshold === undefined || one.threshold === null ? nothing : html`<span class="muted numeric">${t("needs {n}", {n: formatScore(one.threshold)})}</span>`}</div>
      ${one.why ? html`<p class="hint">${one.why}</p>` : nothing}
      ${one.others?.length ? html`<ul class="line-list">${one.others.map((/** @type {any} */ other) => html`<li><span class="grow truncate">${other.name || other.id}</span><span class="numeric muted">${formatScore(other.score)}</span></li>`)}</ul>` : nothing}</div>`);
  }
}
customElements.define("resource-preview", ResourcePreview);

/** Whether nothing was filled in, however deep. @param {any} data @returns {boolean} */
function isBlank(data) {
  return data && typeof data === "object" ? Object.values(data).every(isBlank) : !data;
}
