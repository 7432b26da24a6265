/** `<resource-list>`: the resources of a context; drag a row, or move it with the arrow keys of its handle. */
import {html, nothing, repeat} from "../../vendor/lit.js";
import {encode} from "../../lib/api.js";
import {t} from "../../lib/i18n.js";
import {at, navigate} from "../../lib/router.js";
import {confirmAction} from "../../ui/dialog.js";
import {ConsoleElement} from "../../ui/element.js";
import {icon, typeIcon} from "../../ui/icon.js";
import {emptyState, modeBadge} from "../../ui/parts.js";
import {RowWindow} from "../../ui/row-window.js";
import {styled} from "../../ui/style.js";
import {addResource} from "./add-resource.js";

const LONGEST = 240; // characters of a text in a row
const MOST_ROWS = 60; // beyond that, only rows in view exist, all of one height
const HEIGHTS = {wide: 84, narrow: 132}; // of these, with the space below

export class ResourceList extends ConsoleElement {
  static properties = {context: {}, resources: {attribute: false}, types: {attribute: false}, disabled: {type: Boolean}, dragged: {state: true}, over: {state: true}, said: {state: true}};

  constructor() {
    super();
    this.context = "";
    /** @type {any[]} */
    this.resources = [];
    /** @type {any[]} */
    this.types = [];
    this.disabled = false;
    this.dragged = -1;
    this.over = -1;
    this.said = "";
    this.narrow = matchMedia("(max-width: 640px)");
    this.view = new RowWindow(this, ".resource-rows.windowed", () => ({count: this.resources.length, height: this.rowHeight}));
  }

  get rowHeight() {
    return this.narrow.matches ? HEIGHTS.narrow : HEIGHTS.wide;
  }

  /** @param {any[]} resources */
  send(resources) {
    this.dispatchEvent(new CustomEvent("change", {detail: resources}));
  }

  /** @param {number} from @param {number} to */
  move(from, to) {
    if (to < 0 || to >= this.resources.length || from === to) return;
    const moved = this.resources[from];
    this.send(this.resources.toSpliced(from, 1).toSpliced(to, 0, moved));
    this.said = t("{name} is now number {n} of {total}.", {name: moved.name || moved.id, n: to + 1, total: this.resources.length});
    if (this.isLong) this.view.reveal(to);
    this.updateComplete.then(() => /** @type {HTMLElement | null} */ (this.querySelector(`[data-id="${CSS.escape(moved.id)}"] .handle`))?.focus({preventScroll: this.isLong}));
  }

  get isLong() {
    return this.resources.length > MOST_ROWS;
  }

  /** @param {KeyboardEvent} event @param {number} index */
  moveByKey(event, index) {
    const last = this.resources.length - 1;
    const target = {ArrowUp: index - 1, ArrowDown: index + 1, Home: 0, End: last, PageUp: Math.max(0, index - 10), PageDown: Math.min(last, index + 10)}[event.key];
    if (target === undefined) return;
    event.preventDefault();
    this.move(index, target);
  }

  async add() {
    const resource = await addResource(this.types, this.resources);
    if (!resource) return;
    this.send([...this.resources, resource]);
    navigate(`/contexts/${encode(this.context)}/${encode(resource.id)}`);
  }

  /** @param {number} index */
  async deleteObject(index) {
    const {name, id} = this.resources[index];
    if (await confirmAction(t("Remove {name}?", {name: name || id}), t("It is removed when you save the context."), {label: t("Remove"), danger: true})) this.send(this.resources.toSpliced(index, 1));
  }

  render() {
    const button = this.disabled ? nothing : html`<button class="button" @click=${this.add}>${icon("plus")}${t("Add resource")}</button>`;
    if (!this.resources.length) return html`<div class="card">${emptyState("file-text", t("No resources yet"), t("Add a brand voice, a text, a glossary, a document or a link."), button)}</div>`;
    return html`<div class="stack">
      <p class="hint">${t("The order is the order in which the model reads them.")} ${this.disabled ? "" : t("Drag a resource, or focus its handle and press the arrow keys.")}</p>
      ${this.renderRows()}
      <div>${button}</div><div class="visually-hidden" role="status" aria-live="polite">${this.said}</div></div>`;
  }

  renderRows() {
    const render = (/** @type {number} */ index) => this.renderRow(this.resources[index], index);
    const key = (/** @type {number} */ index) => this.resources[index].id;
    if (!this.isLong) return html`<ol class="resource-rows">${repeat(this.resources.keys(), key, render)}</ol>`;
    const shown = new Set(this.view.list());
    if (this.dragged >= 0) shown.add(this.dragged); // else the browser would drop it
    return html`<ol class="resource-rows windowed" ${styled({height: `${this.resources.length * this.rowHeight}px`})}>${repeat(shown, key, render)}</ol>`;
  }

  /** @param {any} resource @param {number} index */
  renderRow(resource, index) {
    const place = this.isLong ? styled({transform: `translateY(${index * this.rowHeight}px)`, height: `${this.rowHeight - 8}px`}) : nothing;
    const type = this.types.find((one) => one.alias === resource.type);
    const name = resource.name || resource.id;
    return html`<li class="resource-row card ${this.over === index && this.dragged !== index ? "over" : ""} ${this.dragged === index ? "dragged" : ""}" data-id=${resource.id} ${place}
        aria-posinset=${this.isLong ? index + 1 : nothing} aria-setsize=${this.isLong ? this.resources.length : nothing}
        draggable=${this.disabled ? "false" : "true"} @dragstart=${(/** @type {DragEvent} */ event) => { this.dragged = index; event.dataTransfer?.setData("text/plain", resource.id); }}
        @dragover=${(/** @type {DragEvent} */ event) => { if (this.dragged >= 0) { event.preventDefault(); this.over = index; } }}
        @drop=${(/** @type {DragEvent} */ event) => { event.preventDefault(); this.move(this.dragged, index); }}
        @dragend=${() => { this.dragged = this.over = -1; }}>
      ${this.disabled ? nothing : html`<button class="handle" aria-label=${t("Move {name}: arrow keys", {name})} @keydown=${(/** @type {KeyboardEvent} */ event) => this.moveByKey(event, index)}>${icon("grip-vertical")}</button>`}
      <span class="type-icon" title=${type?.name || resource.type}>${typeIcon(type)}</span>
      <span class="grow resource-text"><a class="truncate" href=${at(`/contexts/${encode(this.context)}/${encode(resource.id)}`)}>${name}</a>
        <span class="sub clamp-2">${resource.description || summarize(resource)}</span></span>
      <span class="row badges">${modeBadge(resource.mode)}${resource.mandatory ? html`<span class="badge bad">${t("Mandatory")}</span>` : nothing}
        ${resource.languages?.length ? html`<span class="badge outline">${resource.languages.join(", ")}</span>` : nothing}</span>
      ${this.disabled ? nothing : html`<button class="button ghost small icon-only" aria-label=${t("Remove {name}", {name})} @click=${() => this.deleteObject(index)}>${icon("x")}</button>`}
    </li>`;
  }
}
customElements.define("resource-list", ResourceList);

/** What a resource says, in a line. @param {any} resource */
function summarize({type, data = {}, link}) {
  if (type === "brand-voice") return [data.tone, data.audience].flat().filter(Boolean).join(" · ");
  if (type === "glossary") {
    const terms = Array.isArray(data.terms) ? data.terms.map((/** @type {any} */ one) => one.term) : Object.keys(data.terms || {});
    return terms.join(", ");
  }
  if (type === "external-link") return `${data.url}${link?.fetched_at ? "" : ` · ${t("never fetched")}`}`;
  const text = String(data.content || data.path || data.url || data.server || (data.sha256 ? t("Uploaded document") : ""));
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}
