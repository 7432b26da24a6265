/**
 * `<virtual-list>`: rows of one height, of which only those in view exist; pages of the list are fetched as they come into
 * view. Arrow keys, Home, End, Page Up and Page Down move between rows.
 */
import {html, nothing} from "../vendor/lit.js";
import {t} from "../lib/i18n.js";
import {ConsoleElement, debounce} from "./element.js";
import {renderFailure, renderLoading} from "./parts.js";
import {RowWindow} from "./row-window.js";
import {styled} from "./style.js";

const PAGE = 50;
const PAUSE_MS = 80; // without scrolling, before rows are fetched that were not known
const ATTEMPTS = 3; // to fetch a page

/** @typedef {{cell: (item: any) => unknown, title: string, width?: string, className?: string}} Column */

export class VirtualList extends ConsoleElement {
  static properties = {
    fetchPage: {attribute: false}, columns: {attribute: false}, href: {attribute: false}, label: {}, rowHeight: {type: Number},
    empty: {attribute: false}, open: {attribute: false},
  };

  constructor() {
    super();
    /** @type {((skip: number, take: number) => Promise<{items: any[], total: number}>) | null} */
    this.fetchPage = null;
    /** @type {Column[]} */
    this.columns = [];
    /** @type {(item: any) => string} */
    this.href = () => "#";
    this.label = "";
    this.rowHeight = 52;
    /** @type {unknown} */
    this.empty = nothing;
    /** @type {((item: any) => void) | null} what a row does instead of leading somewhere */
    this.open = null;
    /** @type {Map<number, any[] | "loading">} */
    this.pages = new Map();
    /** @type {number | null} */
    this.total = null;
    /** @type {any} */
    this.error = null;
    this.active = 0;
    this.failures = 0;
    this.view = new RowWindow(this, ".vlist-body", () => ({count: this.total || 0, height: this.rowHeight}), () => this.noticeMissing());
    this.fetchSoon = debounce(() => this.fetchVisible(), PAUSE_MS);
  }

  /** @param {Map<string, unknown>} changed */
  willUpdate(changed) {
    if (changed.has("fetchPage")) this.reload();
  }

  reload() {
    this.pages = new Map();
    this.total = null;
    this.error = null;
    this.view.first = this.active = this.failures = 0;
    this.load(0);
  }

  /** @param {number} page */
  async load(page) {
    if (!this.fetchPage || this.pages.has(page)) return;
    const pages = this.pages;
    pages.set(page, "loading");
    try {
      const {items, total} = await this.fetchPage(page * PAGE, PAGE);
      if (pages !== this.pages) return;
      pages.set(page, items);
      this.total = total;
      this.failures = 0;
    } catch (error) {
      if (pages !== this.pages) return;
      pages.delete(page);
      this.failures += 1;
      if (this.total === null || this.failures >= ATTEMPTS) this.error = error;
      else setTimeout(this.fetchSoon, 500 * this.failures);
      return this.requestUpdate();
    }
    this.requestUpdate();
    this.dispatchEvent(new CustomEvent("counted", {detail: this.total}));
  }

  /** What is missing of the rows in view is fetched once scrolling pauses. */
  noticeMissing() {
    if (this.listPages().some((page) => !this.pages.has(page))) this.fetchSoon();
  }

  /** The pages of the rows in view. */
  listPages() {
    const {first, visible} = this.view;
    const last = Math.floor(Math.min((this.total ?? 1) - 1, first + visible) / PAGE);
    const start = Math.floor(first / PAGE);
    return Array.from({length: last - start + 1}, (_, index) => start + index);
  }

  fetchVisible() {
    if (this.isConnected && !this.error) for (const page of this.listPages()) this.load(page);
  }

  /** @param {number} index */
  getItem(index) {
    const page = this.pages.get(Math.floor(index / PAGE));
    return Array.isArray(page) ? page[index % PAGE] : undefined;
  }

  /** @param {KeyboardEvent} event */
  moveFocus(event) {
    const steps = /** @type {Record<string, number>} */ ({
      ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity,
    });
    const target = /** @type {HTMLElement} */ (event.target);
    if (!(event.key in steps) || !target.classList.contains("vlist-link") || this.total === null) return;
    event.preventDefault();
    this.active = Math.max(0, Math.min(this.total - 1, this.active + steps[event.key]));
    this.view.reveal(this.active);
    this.requestUpdate();
    this.updateComplete.then(() => this.focusRow());
  }

  focusRow(attempts = 20) {
    const link = /** @type {HTMLElement | null} */ (this.querySelector(`[data-index="${this.active}"] .vlist-link`));
    if (link) link.focus({preventScroll: true});
    else if (attempts) setTimeout(() => this.focusRow(attempts - 1), 50);
  }

  /** @param {MouseEvent} event @param {any} item */
  choose(event, item) {
    if (!this.open || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    this.open(item);
  }

  render() {
    if (this.error) return renderFailure(this.error, () => this.reload());
    if (this.total === null) return renderLoading();
    if (this.total === 0) return this.empty;
    const arrange = (/** @type {Column[]} */ columns) => columns.map((column) => column.width || "minmax(0, 1fr)").join(" ");
    const widths = {"--columns": arrange(this.columns), "--columns-narrow": arrange(this.columns.filter((column) => !column.className?.includes("wide-only")))};
    return html`<div class="vlist card" role="table" aria-label=${this.label} aria-rowcount=${this.total + 1}
        ${styled(widths)} @keydown=${this.moveFocus}>
      <div class="vlist-head" role="row" aria-rowindex="1">
        ${this.columns.map((column) => html`<span role="columnheader" class=${column.className || ""}>${column.title}</span>`)}</div>
      <div class="vlist-body" role="rowgroup" ${styled({height: `${this.total * this.rowHeight}px`})}>
        ${this.view.list().map((index) => this.renderRow(index))}</div>
    </div>`;
  }

  /** @param {number} index */
  renderRow(index) {
    const item = this.getItem(index);
    const style = styled({transform: `translateY(${index * this.rowHeight}px)`, height: `${this.rowHeight}px`});
    if (!item) return html`<div class="vlist-row" role="row" aria-rowindex=${index + 2} ${style}><span class="skeleton" role="cell"><span class="visually-hidden">${t("Loading…")}</span></span></div>`;
    return html`<div class="vlist-row" role="row" aria-rowindex=${index + 2} data-index=${index} ${style}
        @focusin=${() => { this.active = index; }}>
      ${this.columns.map((column, place) => html`<span role="cell" class=${column.className || ""}>${place === 0
        ? html`<a class="vlist-link" href=${this.href(item)} @click=${(/** @type {MouseEvent} */ event) => this.choose(event, item)}>${column.cell(item)}</a>` : column.cell(item)}</span>`)}
    </div>`;
  }
}
customElements.define("virtual-list", VirtualList);
