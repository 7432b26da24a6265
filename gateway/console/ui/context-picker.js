/** `<context-picker>`: contexts in an order; sends `change` with the aliases as `detail`. */
import {html, nothing, repeat} from "../vendor/lit.js";
import {get} from "../lib/api.js";
import {t} from "../lib/i18n.js";
import {at} from "../lib/router.js";
import {ConsoleElement, debounce} from "./element.js";
import {icon} from "./icon.js";

const MOST_OPTIONS = 200; // beyond that, contexts are found by typing
const MOST_FOUND = 8;

export class ContextPicker extends ConsoleElement {
  static properties = {value: {attribute: false}, disabled: {type: Boolean}, label: {}, known: {state: true}, found: {state: true}};

  constructor() {
    super();
    /** @type {string[]} */
    this.value = [];
    this.disabled = false;
    this.label = t("Contexts");
    /** @type {any[]} */
    this.known = [];
    /** @type {number | null} null: not known yet */
    this.total = null;
    /** @type {{items: any[], total: number} | null} what was typed matches */
    this.found = null;
    this.search = debounce((/** @type {string} */ text) => this.find(text), 200);
  }

  connectedCallback() {
    super.connectedCallback();
    this.load();
  }

  async load() {
    const {items, total} = await fetchContexts({take: MOST_OPTIONS});
    this.total = total;
    this.known = items;
    const unknown = total > items.length ? this.value.filter((alias) => !this.findKnown(alias)) : [];
    const pages = await Promise.all(unknown.map((filter) => fetchContexts({filter, take: 1})));
    if (pages.length) this.known = [...items, ...pages.flatMap((page) => page.items)];
  }

  /** @param {string} text */
  async find(text) {
    this.found = text ? await fetchContexts({filter: text, take: MOST_FOUND + this.value.length}) : null;
  }

  /** @param {string} alias */
  findKnown(alias) {
    return this.known.find((context) => context.alias === alias);
  }

  /** @param {any} context */
  add(context) {
    if (!this.findKnown(context.alias)) this.known = [...this.known, context];
    this.found = null;
    this.send([...this.value, context.alias]);
    const field = /** @type {HTMLInputElement | null} */ (this.querySelector("input[type=search]"));
    if (field) field.value = "";
    field?.focus();
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
    return html`<fieldset class="stack tight"><legend class="label">${this.label}</legend>
      ${this.value.length ? html`<ol class="picked">${repeat(this.value, (alias) => alias, (alias, index) => html`<li>
        ${icon("layers")}<a class="grow truncate" href=${at(`/contexts/${encodeURIComponent(alias)}`)}>${this.findKnown(alias)?.name || alias}</a>
        ${this.disabled ? nothing : html`
          <button type="button" class="button ghost small icon-only" aria-label=${t("Move {name} up", {name: alias})} ?disabled=${index === 0} @click=${() => this.move(index, -1)}>${icon("arrow-up")}</button>
          <button type="button" class="button ghost small icon-only" aria-label=${t("Move {name} down", {name: alias})} ?disabled=${index === this.value.length - 1} @click=${() => this.move(index, 1)}>${icon("arrow-down")}</button>
          <button type="button" class="button ghost small icon-only" aria-label=${t("Remove {name}", {name: alias})} @click=${() => this.send(this.value.toSpliced(index, 1))}>${icon("x")}</button>`}
      </li>`)}</ol>` : html`<p class="muted">${t("No context is assigned.")}</p>`}
      ${this.disabled ? nothing : (this.total || 0) > MOST_OPTIONS ? this.renderSearch() : this.renderSelect()}
    </fieldset>`;
  }

  renderSelect() {
    const free = this.known.filter((context) => !this.value.includes(context.alias));
    return html`<select aria-label=${t("Add a context")} ?disabled=${this.total === null} .value=${""} @change=${(/** @type {any} */ event) => {
        if (event.target.value) this.send([...this.value, event.target.value]);
        event.target.value = "";
      }}><option value="">${t("Add a context…")}</option>
      ${free.map((context) => html`<option value=${context.alias}>${context.name || context.alias}</option>`)}</select>`;
  }

  renderSearch() {
    const free = this.found?.items.filter((context) => !this.value.includes(context.alias)).slice(0, MOST_FOUND) || [];
    const more = this.found ? this.found.total - this.found.items.length : 0;
    return html`<input type="search" autocomplete="off" aria-label=${t("Add a context")} placeholder=${t("Type to find one of {n} contexts", {n: this.total || 0})}
        @input=${(/** @type {any} */ event) => this.search(event.target.value.trim())} @keydown=${(/** @type {KeyboardEvent} */ event) => {
          if (event.key !== "Enter") return;
          event.preventDefault(); // the form around it is not sent
          if (free.length) this.add(free[0]);
        }}>
      <div role="status">${this.found ? html`<ul class="picked found">${free.map((context) => html`<li><button type="button" class="button ghost grow" @click=${() => this.add(context)}>${icon("plus")}<span class="truncate">${context.name || context.alias}</span><code class="muted truncate">${context.alias}</code></button></li>`)}</ul>
        ${free.length ? nothing : html`<p class="muted">${t("No context matches.")}</p>`}${more > 0 ? html`<p class="hint">${t("{n} more match. Type more of the name.", {n: more})}</p>` : nothing}` : nothing}</div>`;
  }
}
customElements.define("context-picker", ContextPicker);

/** @param {Record<string, any>} query @returns {Promise<{items: any[], total: number}>} */
function fetchContexts(query) {
  return get("contexts", {brief: true, ...query}).catch(() => ({items: [], total: 0}));
}
