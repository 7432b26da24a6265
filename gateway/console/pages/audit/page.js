/** Who changed what, newest first. */
import {html} from "../../vendor/lit.js";
import {get} from "../../lib/api.js";
import {formatTime} from "../../lib/format.js";
import {t} from "../../lib/i18n.js";
import {showDialog} from "../../ui/dialog.js";
import {renderChanges} from "../../ui/diff-view.js";
import {ConsoleElement, debounce} from "../../ui/element.js";
import {emptyState, pageHead} from "../../ui/parts.js";
import "../../ui/virtual-list.js";

const KINDS = ["contexts", "profiles", "agents", "prompts", "recipes", "content", "documents", "cases", "keys", "entities", "relationships", "axioms"];

export class AuditPage extends ConsoleElement {
  constructor() {
    super();
    /** @type {Record<string, string>} */
    this.filters = {};
    this.fetchPage = this.makeFetch();
    this.change = debounce((/** @type {string} */ name, /** @type {string} */ value) => {
      this.filters = {...this.filters, [name]: value};
      this.fetchPage = this.makeFetch();
      this.requestUpdate();
    });
  }

  makeFetch() {
    const filters = this.filters;
    return (/** @type {number} */ skip, /** @type {number} */ take) => get("audit", {...filters, skip, take});
  }

  /** @param {any} entry */
  show(entry) {
    return showDialog({heading: `${entry.kind}/${entry.alias}`, wide: true, body: () => html`<p class="soft">${formatTime(entry.at)} · ${entry.by} · ${entry.action}</p>${renderChanges(entry.changes || [])}`});
  }

  render() {
    /** @type {import("../../ui/virtual-list.js").Column[]} */
    const columns = [
      {title: t("What"), width: "minmax(0, 2fr)", cell: (one) => html`${one.alias}<span class="sub">${one.kind.replace(/^draft:/, "")}<span class="narrow-only"> · ${one.by} · ${formatTime(one.at)}</span></span>`},
      {title: t("Change"), width: "minmax(0, 1fr)", cell: (one) => html`<span class="badge">${one.action}</span>`},
      {title: t("By"), width: "minmax(0, 1fr)", className: "wide-only", cell: (one) => one.by},
      {title: t("When"), width: "180px", className: "wide-only", cell: (one) => formatTime(one.at)},
    ];
    return html`<div class="page">${pageHead(t("Audit"), {lead: t("Who changed what, and when.")})}
      <div class="toolbar filters"><select aria-label=${t("Kind")} @change=${(/** @type {any} */ event) => this.change("kind", event.target.value)}><option value="">${t("Everything")}</option>${KINDS.map((kind) => html`<option>${kind}</option>`)}</select>
        <input type="search" aria-label=${t("Alias")} placeholder=${t("Alias")} @input=${(/** @type {any} */ event) => this.change("alias", event.target.value)}><input type="search" aria-label=${t("By")} placeholder=${t("By")} @input=${(/** @type {any} */ event) => this.change("by", event.target.value)}></div>
      <virtual-list .label=${t("Audit")} .fetchPage=${this.fetchPage} .rowHeight=${56} .columns=${columns} .open=${(/** @type {any} */ entry) => this.show(entry)} .empty=${html`<div class="card">${emptyState("scroll-text", t("No changes yet"))}</div>`}></virtual-list></div>`;
  }
}
customElements.define("audit-page", AuditPage);
