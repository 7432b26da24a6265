/** `<resource-picker>`: ids of resources, found by typing; sends `change` with the ids as `detail`. */
import {html, nothing} from "../vendor/lit.js";
import {get} from "../lib/api.js";
import {t} from "../lib/i18n.js";
import {ConsoleElement, debounce} from "./element.js";
import {icon} from "./icon.js";

export class ResourcePicker extends ConsoleElement {
  static properties = {value: {attribute: false}, label: {}, hint: {}, found: {state: true}};

  constructor() {
    super();
    /** @type {string[]} */
    this.value = [];
    this.label = t("Resources");
    this.hint = "";
    /** @type {any[]} */
    this.found = [];
    this.search = debounce((/** @type {string} */ text) => this.find(text), 200);
  }

  /** @param {string} text */
  async find(text) {
    const {items} = text ? await get("search", {q: text, kind: "resources", take: 20}).catch(() => ({items: []})) : {items: []};
    this.found = items;
  }

  /** @param {string[]} value */
  send(value) {
    this.value = value;
    this.dispatchEvent(new CustomEvent("change", {detail: value}));
  }

  /** @param {HTMLInputElement} field */
  add(field) {
    const id = field.value.trim();
    if (!id) return;
    field.value = "";
    this.found = [];
    if (!this.value.includes(id)) this.send([...this.value, id]);
  }

  /** @param {KeyboardEvent} event */
  handleKey(event) {
    if (event.key !== "Enter") return;
    event.preventDefault(); // the form around it is not sent
    this.add(/** @type {HTMLInputElement} */ (event.target));
  }

  render() {
    return html`<fieldset class="stack tight"><legend class="label">${this.label}</legend>
      ${this.value.length ? html`<ul class="picked">${this.value.map((id, index) => html`<li>${icon("file-text")}<code class="grow truncate">${id}</code>
        <button type="button" class="button ghost small icon-only" aria-label=${t("Remove {name}", {name: id})} @click=${() => this.send(this.value.toSpliced(index, 1))}>${icon("x")}</button></li>`)}</ul>` : nothing}
      <div class="row"><input class="grow" list="resource-options" autocomplete="off" aria-label=${t("Add a resource")} placeholder=${t("Name or id of a resource")} @input=${(/** @type {any} */ event) => this.search(event.target.value)} @keydown=${this.handleKey}>
        <button type="button" class="button" @click=${(/** @type {any} */ event) => this.add(event.currentTarget.previousElementSibling)}>${icon("plus")}${t("Add")}</button></div>
      <datalist id="resource-options">${this.found.map((one) => html`<option value=${one.id}>${one.name}</option>`)}</datalist>
      ${this.hint ? html`<span class="hint">${this.hint}</span>` : nothing}</fieldset>`;
  }
}
customElements.define("resource-picker", ResourcePicker);
