/**
 * `<view-context>`: what a model was told, or would be: rules, references and tools beside each other, with how each came in,
 * what it cost, and what was left out and why. Takes a receipt or the result of a dry run.
 */
import {html, nothing} from "../vendor/lit.js";
import {encode, get} from "../lib/api.js";
import {formatNumber, formatPriority, formatScore} from "../lib/format.js";
import {t} from "../lib/i18n.js";
import {at} from "../lib/router.js";
import {allows} from "../lib/state.js";
import {renderBudget} from "./budget-bar.js";
import {ConsoleElement} from "./element.js";
import {icon} from "./icon.js";
import {emptyState, modeBadge, nameLevel, nameMode} from "./parts.js";

const MAX_CONTEXTS = 30; // whose resources are looked up for priorities and descriptions

export class ViewContext extends ConsoleElement {
  static properties = {exchange: {attribute: false}, details: {state: true}};

  constructor() {
    super();
    /** @type {any} */
    this.exchange = null;
    /** @type {Record<string, any>} resources by id, for their priority and description */
    this.details = {};
  }

  /** @param {Map<string, unknown>} changed */
  willUpdate(changed) {
    if (changed.has("exchange") && this.exchange?.selection && allows("editor")) this.loadDetails();
  }

  async loadDetails() {
    const {injected, dropped} = this.exchange.selection;
    const contexts = [...new Set([...injected, ...dropped].map((/** @type {any} */ item) => item.context).filter(Boolean))].slice(0, MAX_CONTEXTS);
    const found = await Promise.all(contexts.map((alias) => get(`contexts/${encode(alias)}`).catch(() => null)));
    /** @type {Record<string, any>} */
    const details = {};
    for (const context of found) for (const one of context?.resources || []) details[`${context.alias}/${one.id}`] = one;
    this.details = details;
  }

  /** @param {any} item */
  priorityOf(item) {
    return item.priority ?? this.details[item.id]?.priority;
  }

  /** By priority, then by name. @param {any[]} items */
  sort(items) {
    return items.toSorted((one, other) => (this.priorityOf(one) ?? 1000) - (this.priorityOf(other) ?? 1000) || nameItem(one).localeCompare(nameItem(other)));
  }

  render() {
    const exchange = this.exchange;
    if (!exchange) return nothing;
    if (!exchange.selection) return emptyState("inbox", t("No context was chosen"), t("The request ended before the gateway chose any context."));
    const {injected} = exchange.selection;
    const own = listOwnTools(exchange);
    const columns = [
      [t("Rules"), "scale", injected.filter((/** @type {any} */ item) => item.kind === "rule")],
      [t("References"), "book-open", injected.filter((/** @type {any} */ item) => item.kind !== "rule" && item.kind !== "tool")],
      [t("Tools"), "wrench", [...injected.filter((/** @type {any} */ item) => item.kind === "tool"), ...own]],
    ];
    return html`<div class="stack">${renderBudget(exchange.tokens)}
      <div class="vc-columns">${columns.map(([title, image, items]) => html`<section class="card vc-column"><div class="card-head"><h2>${icon(image)} ${title}</h2><span class="badge numeric">${formatNumber(items.length)}</span></div>
        ${items.length ? html`<ul class="vc-items">${this.sort(items).map((item) => this.renderItem(item))}</ul>` : html`<p class="muted vc-empty">${t("None.")}</p>`}</section>`)}</div>
      ${this.renderRequestItems(exchange.selection.items)}${this.renderCatalogue(exchange.selection.catalogue)}${this.renderDropped(exchange.selection.dropped)}</div>`;
  }

  /** @param {any} item */
  renderItem(item) {
    const priority = this.priorityOf(item);
    const description = this.details[item.id]?.description;
    return html`<li class="vc-item"><div class="row vc-line">
        ${item.kind === "tool" ? html`<span class="mono muted">${item.server || "gateway"}.</span>` : priority === undefined ? nothing : html`<span class="mono muted" title=${t("Priority")}>${formatPriority(priority)}</span>`}
        ${item.context && allows("editor") ? html`<a class="truncate vc-name" title=${item.id} href=${at(`/contexts/${item.id.split("/").map(encode).join("/")}`)}>${nameItem(item)}</a>` : html`<strong class="truncate vc-name" title=${item.id}>${nameItem(item)}</strong>`}</div>
      <div class="row vc-badges">${item.mode ? html`<span class="badge ${item.mode}">${nameMode(item.mode)}${item.score === null || item.score === undefined ? nothing : ` · ${formatScore(item.score)}`}</span>` : nothing}
        ${item.level ? html`<span class="badge outline">${nameLevel(item.level)}</span>` : nothing}
        ${item.via && !["contexts", "semantic"].includes(item.via) ? html`<span class="badge outline">${item.via}</span>` : nothing}
        ${item.truncated ? html`<span class="badge warn">${item.summarized ? t("summarized") : t("shortened")}</span>` : nothing}
        ${item.tokens ? html`<span class="muted numeric vc-tokens">${t("{n} token|{n} tokens", {n: item.tokens})}</span>` : nothing}</div>
      ${description ? html`<p class="hint clamp-2">${description}</p>` : nothing}
      ${item.why ? html`<p class="hint vc-why">${icon("corner-down-right")} ${item.why}</p>` : nothing}</li>`;
  }

  /** @param {any[]} items */
  renderRequestItems(items) {
    if (!items?.length) return nothing;
    return html`<details class="card"><summary>${t("Came with the request")} <span class="badge">${items.length}</span></summary><ul class="line-list padded-list">
      ${items.map((item) => html`<li><span class="grow">${item.name}</span><span class="muted numeric">${item.tokens ?? item.characters ?? ""}</span></li>`)}</ul></details>`;
  }

  /** Ids in a receipt, items in a dry run. @param {any[]} catalogue */
  renderCatalogue(catalogue) {
    if (!catalogue?.length) return nothing;
    return html`<details class="card"><summary>${t("Offered on demand")} <span class="badge">${catalogue.length}</span></summary><ul class="line-list padded-list">
      ${catalogue.map((one) => typeof one === "string" ? html`<li><code class="grow">${one}</code></li>`
        : html`<li><span class="grow truncate">${nameItem(one)} <code class="muted">${one.id}</code></span>${one.score === null ? nothing : html`<span class="badge numeric">${formatScore(one.score)}</span>`}</li>`)}</ul></details>`;
  }

  /** @param {any[]} dropped */
  renderDropped(dropped) {
    if (!dropped?.length) return nothing;
    return html`<details class="card" open><summary>${t("Left out, and why")} <span class="badge">${dropped.length}</span></summary><ul class="line-list padded-list">
      ${this.sort(dropped).map((item) => html`<li><span class="truncate vc-dropped">${nameItem(item)}</span>${item.mode ? modeBadge(item.mode) : nothing}<span class="muted grow">${item.why || item.reason}</span>
        ${item.score === null || item.score === undefined ? nothing : html`<span class="badge numeric">${formatScore(item.score)}</span>`}</li>`)}</ul></details>`;
  }
}
customElements.define("view-context", ViewContext);

/** @param {any} item */
const nameItem = (item) => item.name || item.id || "";

/** The gateway's own two tools, where they were offered. @param {any} exchange */
function listOwnTools(exchange) {
  const names = exchange.scope?.tools || (exchange.tools || []).map((/** @type {any} */ tool) => tool.function?.name).filter(Boolean);
  const known = new Set(exchange.selection.injected.filter((/** @type {any} */ item) => item.kind === "tool").flatMap((/** @type {any} */ item) => [item.name, item.id.split("/").pop()]));
  return names.filter((/** @type {string} */ name) => /^(get|list)_context_resource/.test(name) && !known.has(name))
    .map((/** @type {string} */ name) => ({id: name, name, kind: "tool", server: "gateway", why: t("because there is something to fetch")}));
}
