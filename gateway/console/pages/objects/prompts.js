import {html} from "../../vendor/lit.js";
import {t} from "../../lib/i18n.js";
import {contextsField, field} from "./fields.js";
import {ObjectPage} from "./object-page.js";

const OWN = ["context", "content", "input"];

export class PromptsPage extends ObjectPage {
  constructor() {
    super("prompts");
  }

  describe() {
    return {
      kind: "prompts", title: t("Prompts"), lead: t("Templates for a task, with variables that a request fills in."), image: "quote", create: t("New prompt"), hint: t("For example: Meta description"),
      start: {template: "{input}"},
      columns: [
        {title: t("Template"), width: "minmax(0, 2fr)", className: "wide-only", cell: (/** @type {any} */ one) => html`<span class="muted">${one.template.replaceAll("\n", " ")}</span>`},
        {title: t("Contexts"), width: "minmax(0, 1fr)", className: "wide-only", cell: (/** @type {any} */ one) => one.contexts.join(", ") || "–"},
      ],
    };
  }

  /** @param {any} work @param {(change: any) => void} edit */
  renderForm(work, edit) {
    const props = {work, edit, disabled: this.copy.readOnly, faults: this.copy.faults};
    const variables = listVariables(work.template || "");
    const insert = (/** @type {string} */ name) => edit({template: `${work.template || ""}{${name}}`});
    return html`<div class="split"><section class="card padded stack">${field(props, "name", t("Name"))}${field(props, "template", t("Template"), {rows: 10})}
        ${props.disabled ? "" : html`<div class="row"><span class="hint">${t("Insert")}</span>${OWN.map((name) => html`<button type="button" class="button small mono" @click=${() => insert(name)}>{${name}}</button>`)}</div>`}</section>
      <div class="stack"><section class="card padded stack tight">${contextsField(props)}</section>
        <section class="card padded stack tight"><h2>${t("Variables")}</h2>${variables.length ? html`<ul class="line-list">${variables.map((name) => html`<li><code>{${name}}</code><span class="muted">${explainVariable(name)}</span></li>`)}</ul>` : html`<p class="muted">${t("The template has none.")}</p>`}</section></div></div>`;
  }
}
customElements.define("prompts-page", PromptsPage);

/** @param {string} template */
export const listVariables = (template) => [...new Set([...template.matchAll(/\{((?:vars\.)?[a-z_][\w.]*)\}/gi)].map((match) => match[1]))];

/** @param {string} name */
function explainVariable(name) {
  const texts = /** @type {Record<string, string>} */ ({context: t("the context goes here"), content: t("the text of the content node"), input: t("what the user wrote")});
  return texts[name] || t("set by the request under context.vars");
}
