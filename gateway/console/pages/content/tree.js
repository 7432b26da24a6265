/** `<content-tree>`: nodes that are fetched as they are opened; only the rows in view exist. Sends `choose` with a node. */
import {html, nothing} from "../../vendor/lit.js";
import {get} from "../../lib/api.js";
import {t} from "../../lib/i18n.js";
import {ConsoleElement, debounce} from "../../ui/element.js";
import {icon} from "../../ui/icon.js";
import {emptyState, renderFailure, renderLoading, searchField} from "../../ui/parts.js";
import {styled} from "../../ui/style.js";
import {fetchChildren} from "./children.js";

const ROW = 36;

/** @typedef {{node: any, level: number, open: boolean, position: number, size: number, more?: number, parent?: string}} Row */

export class ContentTree extends ConsoleElement {
  static properties = {selected: {}, rows: {state: true}, filter: {state: true}, error: {state: true}, first: {state: true}};

  constructor() {
    super();
    this.selected = "";
    /** @type {Row[] | null} */
    this.rows = null;
    this.filter = "";
    /** @type {any} */
    this.error = null;
    this.first = 0;
    this.active = 0;
    this.search = debounce((/** @type {string} */ text) => { this.filter = text; this.load(); }, 200);
  }

  connectedCallback() {
    super.connectedCallback();
    this.load();
  }

  async load() {
    const {filter} = this;
    this.error = null;
    try {
      const rows = filter ? await findRows(filter) : await listRows("", 1);
      if (filter !== this.filter) return;
      this.rows = rows;
      this.active = this.first = 0;
      if (!filter && rows.length <= 3) for (const row of rows.filter((one) => countChildren(one.node))) await this.open(row);
    } catch (error) {
      this.error = error;
    }
  }

  /** @param {Row} row */
  async open(row) {
    if (!this.rows || row.open || !countChildren(row.node)) return;
    row.open = true;
    const below = await listRows(row.node.id, row.level + 1);
    const index = this.rows.indexOf(row);
    if (index >= 0 && row.open) this.rows = this.rows.toSpliced(index + 1, 0, ...below);
  }

  /** @param {Row} row */
  close(row) {
    if (!this.rows || !row.open) return;
    row.open = false;
    const index = this.rows.indexOf(row);
    let end = index + 1;
    while (end < this.rows.length && this.rows[end].level > row.level) end += 1;
    this.rows = this.rows.toSpliced(index + 1, end - index - 1);
  }

  /** The rest of a long list of children. @param {Row} row */
  async loadMore(row) {
    if (!this.rows) return;
    const index = this.rows.indexOf(row);
    const below = await listRows(row.parent || "", row.level, row.position - 1);
    this.rows = this.rows.toSpliced(index, 1, ...below);
  }

  /** @param {Row} row @param {number} index */
  choose(row, index) {
    this.active = index;
    if (row.more) return this.loadMore(row);
    this.dispatchEvent(new CustomEvent("choose", {detail: row.node}));
  }

  /** @param {KeyboardEvent} event */
  handleKey(event) {
    const rows = this.rows || [];
    const row = rows[this.active];
    if (!row) return;
    const moves = /** @type {Record<string, number>} */ ({ArrowDown: this.active + 1, ArrowUp: this.active - 1, Home: 0, End: rows.length - 1, PageDown: this.active + 10, PageUp: this.active - 10});
    if (event.key in moves) this.focusRow(moves[event.key]);
    else if (event.key === "ArrowRight" && !row.open) this.open(row);
    else if (event.key === "ArrowRight") this.focusRow(this.active + 1);
    else if (event.key === "ArrowLeft" && row.open) this.close(row);
    else if (event.key === "ArrowLeft") this.focusRow(rows.findLastIndex((one, index) => index < this.active && one.level < row.level));
    else if (event.key === "Enter" || event.key === " ") this.choose(row, this.active);
    else return;
    event.preventDefault();
  }

  /** @param {number} index */
  async focusRow(index) {
    this.active = Math.max(0, Math.min((this.rows?.length || 1) - 1, index));
    const box = /** @type {HTMLElement} */ (this.querySelector(".tree-box"));
    const top = this.active * ROW;
    if (top < box.scrollTop || top > box.scrollTop + box.clientHeight - ROW) box.scrollTop = Math.max(0, top - box.clientHeight / 2);
    this.look();
    this.requestUpdate();
    await this.updateComplete;
    /** @type {HTMLElement | null} */ (this.querySelector(`[data-index="${this.active}"]`))?.focus({preventScroll: true});
  }

  look() {
    const box = this.querySelector(".tree-box");
    if (box) this.first = Math.max(0, Math.floor(box.scrollTop / ROW) - 10);
  }

  render() {
    const rows = this.rows;
    return html`<div class="stack tight">${searchField(t("Search content"), this.filter, this.search)}
      ${this.error ? renderFailure(this.error, () => this.load()) : !rows ? renderLoading() : rows.length ? html`<div class="tree-box" @scroll=${this.look}>
        <div role="tree" aria-label=${t("Content")} @keydown=${this.handleKey} ${styled({height: `${rows.length * ROW}px`})}>
          ${rows.slice(this.first, this.first + 60).map((row, offset) => this.renderRow(row, this.first + offset))}</div></div>`
        : emptyState("folder-tree", this.filter ? t("Nothing matches.") : t("No content yet"), this.filter ? nothing : t("Add a site or a section, then assign contexts to it."))}</div>`;
  }

  /** @param {Row} row @param {number} index */
  renderRow(row, index) {
    const place = styled({transform: `translateY(${index * ROW}px)`, "--level": String(row.level - 1)});
    const focusable = index === this.active ? 0 : -1;
    if (row.more) return html`<div class="tree-row more" role="treeitem" aria-level=${row.level} tabindex=${focusable} data-index=${index} ${place} @click=${() => this.choose(row, index)}>${t("Show {n} more…", {n: row.more})}</div>`;
    const {node} = row;
    const children = countChildren(node);
    return html`<div class="tree-row" role="treeitem" aria-level=${row.level} aria-posinset=${row.position} aria-setsize=${row.size} aria-selected=${String(node.id === this.selected)}
        aria-expanded=${children && !this.filter ? String(row.open) : nothing} tabindex=${focusable} data-index=${index} ${place}
        @focus=${() => { this.active = index; }} @click=${() => this.choose(row, index)}>
      <span class="twisty" @click=${(/** @type {Event} */ event) => { event.stopPropagation(); row.open ? this.close(row) : this.open(row); }}>${children && !this.filter ? icon(row.open ? "chevron-down" : "chevron-right") : nothing}</span>
      ${icon(children ? "folder" : "file")}<span class="truncate grow">${node.title || node.key}${this.filter ? html` <span class="muted">${node.path}</span>` : nothing}</span>
      ${node.contexts?.length ? html`<span class="badge accent" title=${node.contexts.join(", ")}>${icon("layers")}${node.contexts.length}</span>` : nothing}</div>`;
  }
}
customElements.define("content-tree", ContentTree);

/** @param {any} node */
const countChildren = (node) => node.children || 0;

/** @param {string} parent @param {number} level @param {number} [skip] @returns {Promise<Row[]>} */
async function listRows(parent, level, skip = 0) {
  const {items, total} = await fetchChildren(parent, skip);
  const rows = items.map((/** @type {any} */ node, /** @type {number} */ index) => ({node, level, open: false, position: skip + index + 1, size: total}));
  const rest = total - skip - items.length;
  return rest > 0 ? [...rows, {node: {}, level, open: false, position: skip + items.length + 1, size: total, more: rest, parent}] : rows;
}

/** @param {string} filter @returns {Promise<Row[]>} */
async function findRows(filter) {
  const {items, total} = await get("content", {filter, take: 200});
  return items.map((/** @type {any} */ node, /** @type {number} */ index) => ({node, level: 1, open: false, position: index + 1, size: total}));
}
