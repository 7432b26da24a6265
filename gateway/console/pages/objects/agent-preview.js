/** `<agent-preview>`: what an agent's model would be told for a question, without asking it. */
import {html, nothing} from "../../vendor/lit.js";
import {post} from "../../lib/api.js";
import {t} from "../../lib/i18n.js";
import {at} from "../../lib/router.js";
import {ConsoleElement, Loader} from "../../ui/element.js";
import {icon} from "../../ui/icon.js";
import "../../ui/view-context.js";

export class AgentPreview extends ConsoleElement {
  static properties = {agent: {}, draft: {type: Boolean}, useDraft: {state: true}};

  constructor() {
    super();
    this.agent = "";
    this.draft = false;
    this.useDraft = false;
    this.question = t("Hello");
    this.content = "";
    this.loader = new Loader(this, () => post("resolve", {
      context: {agent: this.agent, ...(this.content ? {content: this.content} : {})}, query: this.question, ...(this.useDraft ? {drafts: [`agents/${this.agent}`]} : {}),
    }));
  }

  firstUpdated() {
    this.loader.run();
  }

  /** @param {Event} event */
  submit(event) {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    this.question = String(form.get("question")) || " ";
    this.content = String(form.get("content"));
    this.loader.run();
  }

  render() {
    return html`<div class="stack"><form class="card padded row" @submit=${this.submit}><input class="grow" name="question" aria-label=${t("Question")} placeholder=${t("A question")} .value=${this.question}><input class="narrow-input" name="content" aria-label=${t("Content")} placeholder=${t("Content path (optional)")}>
        ${this.draft ? html`<label class="check"><input type="checkbox" @change=${(/** @type {any} */ event) => { this.useDraft = event.target.checked; }}> ${t("with the draft")}</label>` : nothing}
        <button class="button primary">${icon("eye")}${t("Show")}</button><a class="button" href=${at(`/playground?agent=${encodeURIComponent(this.agent)}`)}>${icon("message-square-text")}${t("Chat")}</a></form>
      ${this.loader.render((result) => html`<view-context .exchange=${result}></view-context><details class="card"><summary>${t("Exact request")}</summary><div class="card-body"><pre class="code" tabindex="0">${JSON.stringify(result.request, null, 2)}</pre></div></details>`)}</div>`;
  }
}
customElements.define("agent-preview", AgentPreview);
