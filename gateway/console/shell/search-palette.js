/** Search over everything, opened with Ctrl+K or ⌘K. */
import {html, nothing} from "../vendor/lit.js";
import {encode, get} from "../lib/api.js";
import {t} from "../lib/i18n.js";
import {navigate} from "../lib/router.js";
import {allows} from "../lib/state.js";
import {ConsoleElement, debounce} from "../ui/element.js";
import {icon} from "../ui/icon.js";
import {hrefOfNode} from "../ui/parts.js";
import {findRole, listNavigation} from "./routes.js";

const ICONS = /** @type {Record<string, string>} */ ({
  contexts: "layers", resources: "file-text", agents: "bot", profiles: "sliders-horizontal", prompts: "quote", content: "folder-tree",
  entities: "waypoints",
});

/** @typedef {{icon: string, name: string, note: string, path: string}} PaletteEntry */

export class SearchPalette extends ConsoleElement {
  static properties = {entries: {state: true}, active: {state: true}};

  constructor() {
    super();
    /** @type {PaletteEntry[]} */
    this.entries = [];
    this.active = 0;
    this.find = debounce((/** @type {string} */ text) => this.search(text), 120);
  }

  open() {
    const dialog = /** @type {HTMLDialogElement} */ (this.querySelector("dialog"));
    if (dialog.open) return;
    const input = /** @type {HTMLInputElement} */ (this.querySelector("input"));
    input.value = "";
    this.search("");
    dialog.showModal();
    input.focus();
  }

  /** @param {string} text */
  async search(text) {
    const pages = listNavigation().flatMap(({links}) => links)
      .filter(([path, name]) => allows(findRole(path)) && name.toLowerCase().includes(text.toLowerCase()))
      .map(([path, name, image]) => ({icon: image, name, note: "", path}));
    const hits = text && allows("editor") ? (await get("search", {q: text, take: 20}).catch(() => ({items: []}))).items : [];
    this.entries = [...pages.slice(0, text ? 4 : 20), ...hits.map(describeHit)];
    this.active = 0;
  }

  /** @param {KeyboardEvent} event */
  handleKey(event) {
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (step && this.entries.length) {
      event.preventDefault();
      this.active = (this.active + step + this.entries.length) % this.entries.length;
      this.updateComplete.then(() => this.querySelector('[aria-selected="true"]')?.scrollIntoView({block: "nearest"}));
    } else if (event.key === "Enter" && this.entries[this.active]) {
      event.preventDefault();
      this.choose(this.entries[this.active]);
    }
  }

  /** @param {PaletteEntry} entry */
  choose(entry) {
    /** @type {HTMLDialogElement} */ (this.querySelector("dialog")).close();
    navigate(entry.path);
  }

  render() {
    return html`<dialog class="dialog palette" aria-label=${t("Search")}><div class="dialog-inner">
      <input role="combobox" aria-expanded="true" aria-controls="palette-list" aria-label=${t("Search everything")}
        aria-activedescendant=${this.entries.length ? `palette-${this.active}` : nothing} placeholder=${t("Search everything…")}
        @input=${(/** @type {any} */ event) => this.find(event.target.value)} @keydown=${this.handleKey}>
      <div class="palette-list" role="listbox" id="palette-list" aria-label=${t("Results")}>
        ${this.entries.map((entry, index) => html`<div class="palette-item" role="option" id="palette-${index}"
            aria-selected=${String(index === this.active)} @click=${() => this.choose(entry)}>
          ${icon(entry.icon)}<span class="truncate">${entry.name}${entry.note ? html`<small>${entry.note}</small>` : nothing}</span></div>`)}
        ${this.entries.length ? nothing : html`<div class="palette-item" role="option" aria-selected="false"><span></span>${t("Nothing found.")}</div>`}
      </div></div></dialog>`;
  }
}
customElements.define("search-palette", SearchPalette);

/** @param {any} hit @returns {PaletteEntry} */
function describeHit(hit) {
  const path = hit.kind === "content" ? hrefOfNode(hit.id) : `/${hit.kind === "resources" ? "contexts" : hit.kind}/${hit.id.split("/").map(encode).join("/")}`;
  return {icon: ICONS[hit.kind] || "search", name: hit.name, note: hit.snippet, path};
}
