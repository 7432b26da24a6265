/** `<context-picker>`: contexts in an order; sends `change` with the aliases as `detail`. */
import {html, nothing, repeat} from "../vendor/lit.js";
import {getAll} from "../lib/api.js";
import {t} from "../lib/i18n.js";
import {at} from "../lib/router.js";
import {ConsoleElement} from "./element.js";
import {icon} from "./icon.js";

export class ContextPicker extends ConsoleElement {
  static properties = {value: {attribute: false}, disabled: {type: Boolean}, label: {}, known: {state: true}};

  constructor() {
    super();
    /** @type {string[]} */
    this.value = [];
    this.disabled = false;
    this.label = t("Contexts");
    /** @type {any[]} */
    this.known = [];
  }

  connectedCallback() {
    super.connectedCallback();
    getAll("contexts", {brief: true}).then((items) => { this.known = items; }, () => {});
  }

  /** @param {string[]} value */
  send(value) {
    this.value = value;
    this.dispatchEvent(new CustomEvent("change", {detail: value}));
  }

  /** @param {number} index @param {number} step */
  move(index, step) {
    const target = index + step;
    if (target < 0 || target >= this.value.length) return;
    const next = [...this.value];
    [next[index], next[target]] = [next[target], next[index]];
    this.send(next);
  }

  render() {
    const free = this.known.filter((context) => !this.value.includes(context.alias));
    const find = (/** @type {string} */ alias) => this.known.find((context) => context.alias === alias);
    return html`<fieldset class="stack tight"><legend class="label">${this.label}</legend>
      ${this.value.length ? html`<ol class="picked">${repeat(this.value, (alias) => alias, (alias, index) => html`<li>
        ${icon("layers")}<a class="grow truncate" href=${at(`/contexts/${encodeURIComponent(alias)}`)}>${find(alias)?.name || alias}</a>
        ${this.disabled ? nothing : html`
          <button type="button" class="button ghost small icon-only" aria-label=${t("Move {name} up", {name: alias})} ?disabled=${index === 0} @click=${() => this.move(index, -1)}>${icon("arrow-up")}</button>
          <button type="button" class="button ghost small icon-only" aria-label=${t("Move {name} down", {name: alias})} ?disabled=${index === this.value.length - 1} @click=${() => this.move(index, 1)}>${icon("arrow-down")}</button>
          <button type="button" class="button ghost small icon-only" aria-label=${t("Remove {name}", {name: alias})} @click=${() => this.send(this.value.toSpliced(index, 1))}>${icon("x")}</button>`}
      </li>`)}</ol>` : html`<p class="muted">${t("No context is assigned.")}</p>`}
      ${this.disabled ? nothing : html`<select aria-label=${t("Add a context")} .value=${""} @change=${(/** @type {any} */ event) => {
        if (event.target.value) this.send([...this.value, event.target.value]);
        event.target.value = "";
      }}><option value="">${t("Add a context…")}</option>
        ${free.map((context) => html`<option value=${context.alias}>${context.name || context.alias}</option>`)}</select>`}
    </fieldset>`;
  }
}
customElements.define("context-picker", ContextPicker);
