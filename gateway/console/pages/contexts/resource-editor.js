/** `<resource-editor>`: one resource of the working copy on the left, what the model will read on the right. */
import {html, nothing} from "../../vendor/lit.js";
import {encode} from "../../lib/api.js";
import {t} from "../../lib/i18n.js";
import {ConsoleElement} from "../../ui/element.js";
import {typeIcon} from "../../ui/icon.js";
import {MODES, explainMode, nameMode, pageHead} from "../../ui/parts.js";
import {renderAdvanced} from "./advanced.js";
import {textArea} from "./forms/field.js";
import {renderDataForm} from "./forms/registry.js";
import "./resource-preview.js";

export class ResourceEditor extends ConsoleElement {
  static properties = {
    context: {}, contextName: {}, resource: {attribute: false}, saved: {attribute: false}, type: {attribute: false}, disabled: {type: Boolean}, faults: {attribute: false},
  };

  constructor() {
    super();
    this.context = this.contextName = "";
    /** @type {any} */
    this.resource = null;
    /** @type {any} */
    this.saved = null;
    /** @type {any} */
    this.type = null;
    this.disabled = false;
    /** @type {Record<string, string>} */
    this.faults = {};
  }

  /** @param {any} change */
  edit(change) {
    this.dispatchEvent(new CustomEvent("change", {detail: {...this.resource, ...change}}));
  }

  get dataFaults() {
    const below = Object.entries(this.faults).filter(([pointer]) => pointer === "/data" || pointer.startsWith("/data/"));
    return Object.fromEntries(below.map(([pointer, message]) => [pointer.slice("/data".length), message]));
  }

  render() {
    const {resource, type, disabled} = this;
    if (!resource) return nothing;
    return html`${pageHead(resource.name || resource.id, {
      crumbs: [[t("Contexts"), "/contexts"], [this.contextName, `/contexts/${encode(this.context)}`]],
      badges: html`<span class="badge">${typeIcon(type)}${type?.name || resource.type}</span>`,
      lead: html`<code>${this.context}/${resource.id}</code>`,
    })}
    <div class="split">
      <div class="stack">
        <section class="card padded stack">
          <div class="grid-2">
            <div class="field"><label for="resource-name">${t("Name")}</label><input id="resource-name" ?disabled=${disabled} .value=${resource.name || ""} aria-invalid=${String("/name" in this.faults)}
              @input=${(/** @type {any} */ event) => this.edit({name: event.target.value})}></div>
            ${this.saved ? nothing : html`<div class="field"><label for="resource-id">${t("Id")}</label><input id="resource-id" class="mono" disabled .value=${resource.id}></div>`}
          </div>
          ${renderDataForm({data: resource.data || {}, change: (data) => this.edit({data}), disabled, faults: this.dataFaults, type, resource, context: this.context, saved: this.saved})}
        </section>
        ${this.renderMode()}
        <section class="card padded stack"><div class="stack tight"><h2>${t("How it is found")}</h2><p class="hint">${t("For semantic search and for the model's own choice: say what it is about and which questions it answers.")}</p></div>
          ${textArea({id: "resource-description", label: t("Description"), rows: 2, disabled, value: resource.description || "", fault: this.faults["/description"], change: (description) => this.edit({description})})}
          ${textArea({
            id: "resource-examples", label: t("Sample questions"), hint: t("One per line. They count like text of the resource."), rows: 3, disabled, fault: this.faults["/examples"],
            value: (resource.examples || []).join("\n"), change: (text) => this.edit({examples: text === "" ? [] : text.split("\n")}),
          })}</section>
        ${renderAdvanced(resource, (change) => this.edit(change), disabled, this.faults)}
      </div>
      <div class="sticky"><resource-preview .context=${this.context} .resource=${resource} .type=${type} .saved=${this.saved}></resource-preview></div>
    </div>`;
  }

  renderMode() {
    const recommended = this.type?.recommended_mode;
    return html`<fieldset class="card padded mode-choices"><legend class="visually-hidden">${t("Injection mode")}</legend><h2 aria-hidden="true">${t("Injection mode")}</h2>
      ${MODES.map((mode) => html`<label class="mode-choice"><input type="radio" name="mode" value=${mode} ?disabled=${this.disabled} .checked=${this.resource.mode === mode} @change=${() => this.edit({mode})}>
        <span><strong>${nameMode(mode)}</strong>${mode === recommended ? html` <span class="badge accent">${t("recommended")}</span>` : nothing}<span class="sub">${explainMode(mode)}</span></span></label>`)}
      ${this.faults["/mode"] ? html`<span class="fault">${this.faults["/mode"]}</span>` : nothing}</fieldset>`;
  }
}
customElements.define("resource-editor", ResourceEditor);
