/** Receipts, newest first, with filters. */
import {html} from "../../vendor/lit.js";
import {get} from "../../lib/api.js";
import {formatAge, formatNumber, formatSeconds} from "../../lib/format.js";
import {t} from "../../lib/i18n.js";
import {at, replaceAddress} from "../../lib/router.js";
import {ConsoleElement, debounce} from "../../ui/element.js";
import {emptyState, pageHead} from "../../ui/parts.js";
import {statusBadge} from "./parts.js";
import "../../ui/virtual-list.js";

const FILTERS = ["status", "agent", "session", "resource", "content"];
const STATUSES = ["ok", "error", "aborted", "upstream_truncated", "loop_limit", "started"];

export class ReceiptsPage extends ConsoleElement {
  static properties = {query: {attribute: false}};

  constructor() {
    super();
    /** @type {URLSearchParams} */
    this.query = new URLSearchParams();
    this.change = debounce((/** @type {string} */ name, /** @type {string} */ value) => this.setFilter(name, value));
    this.fetchPage = this.makeFetch();
  }

  /** @param {Map<string, unknown>} changed */
  willUpdate(changed) {
    if (changed.has("query")) this.fetchPage = this.makeFetch();
  }

  /** @param {string} name @param {string} value */
  setFilter(name, value) {
    const query = new URLSearchParams(this.query);
    if (value) query.set(name, value);
    else query.delete(name);
    replaceAddress(`/receipts${query.size ? `?${query}` : ""}`);
    this.query = query;
  }

  /** The API pages with a cursor; what was seen is kept, and one more page is promised while there is one. */
  makeFetch() {
    const filters = Object.fromEntries(this.query);
    /** @type {any[]} */
    const seen = [];
    /** @type {string | null} */
    let next = "";
    return async (/** @type {number} */ skip, /** @type {number} */ take) => {
      while (next !== null && seen.length < skip + take) {
        const page = /** @type {any} */ (await get("receipts", {...filters, take: 200, after: next}));
        seen.push(...page.items);
        next = page.next;
      }
      return {items: seen.slice(skip, skip + take), total: seen.length + (next === null ? 0 : take)};
    };
  }

  render() {
    const field = (/** @type {string} */ name, /** @type {string} */ label) => html`<input type="search" aria-label=${label} placeholder=${label} .value=${this.query.get(name) || ""} @input=${(/** @type {any} */ event) => this.change(name, event.target.value)}>`;
    return html`<div class="page">${pageHead(t("Receipts"), {lead: t("The account of every request: what the model was told, why, and what it cost.")})}
      <div class="toolbar filters"><select aria-label=${t("Status")} @change=${(/** @type {any} */ event) => this.setFilter("status", event.target.value)}><option value="">${t("Any status")}</option>
          ${STATUSES.map((status) => html`<option ?selected=${this.query.get("status") === status}>${status}</option>`)}</select>
        ${field("agent", t("Agent"))}${field("session", t("Session"))}${field("resource", t("Resource"))}${field("content", t("Content"))}</div>
      <virtual-list .label=${t("Receipts")} .fetchPage=${this.fetchPage} .rowHeight=${56} .href=${(/** @type {any} */ receipt) => at(`/receipts/${receipt.id}`)} .columns=${listColumns()}
        .empty=${html`<div class="card">${emptyState("receipt-text", FILTERS.some((name) => this.query.get(name)) ? t("No receipt matches.") : t("No receipts yet"), t("Every chat request leaves one."))}</div>`}></virtual-list></div>`;
  }
}
customElements.define("receipts-page", ReceiptsPage);

/** @returns {import("../../ui/virtual-list.js").Column[]} */
function listColumns() {
  return [
    {title: t("When"), width: "minmax(0, 1.2fr)", cell: (one) => html`${formatAge(one.at)}<span class="sub"><span class="narrow-only">${one.agent || t("no agent")} · </span>${one.principal}${one.user ? ` · ${one.user}` : ""}</span>`},
    {title: t("About"), width: "minmax(0, 2fr)", className: "wide-only", cell: (one) => html`${one.agent || t("no agent")}<span class="sub">${[one.content, one.session, one.prompt].filter(Boolean).join(" · ") || one.model || ""}</span>`},
    {title: t("Context"), width: "130px", className: "numeric wide-only", cell: (one) => html`${t("{n} item|{n} items", {n: one.injected})}<span class="sub">${t("{n} token|{n} tokens", {n: one.context_tokens})}</span>`},
    {title: t("Turns"), width: "80px", className: "numeric wide-only", cell: (one) => html`${formatNumber(one.turn_count)}<span class="sub">${one.tools_run ? t("{n} tool|{n} tools", {n: one.tools_run}) : ""}</span>`},
    {title: t("Duration"), width: "90px", className: "numeric wide-only", cell: (one) => formatSeconds(one.seconds)},
    {title: t("Status"), width: "140px", cell: (one) => statusBadge(one)},
  ];
}
