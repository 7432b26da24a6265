/** What is used, what it costs, what could be better. */
import {html, nothing} from "../../vendor/lit.js";
import {get} from "../../lib/api.js";
import {formatAge, formatCost, formatNumber, formatShare, formatShort} from "../../lib/format.js";
import {t} from "../../lib/i18n.js";
import {at} from "../../lib/router.js";
import {ConsoleElement, Loader} from "../../ui/element.js";
import {emptyState, pageHead, tabList} from "../../ui/parts.js";
import {renderQuality} from "./quality.js";
import "./suggestions.js";

const TAKE = 200;

export class AnalyticsPage extends ConsoleElement {
  static properties = {tab: {state: true}, sort: {state: true}};

  constructor() {
    super();
    this.tab = "suggestions";
    this.sort = "injected";
    this.loader = new Loader(this, (signal) => this.load(signal));
  }

  connectedCallback() {
    super.connectedCallback();
    this.loader.run();
  }

  /** @param {AbortSignal} signal */
  async load(signal) {
    if (this.tab === "resources") return get("stats/resources", {sort: this.sort, take: TAKE, sessions: true}, signal);
    if (this.tab === "contexts") return get("stats/contexts", {take: TAKE}, signal);
    if (this.tab === "agents") return Promise.all([get("stats/agents", {take: TAKE}, signal), get("stats/models", {take: TAKE}, signal)]).then(([agents, models]) => ({agents: agents.items, models: models.items}));
    if (this.tab === "quality") return Promise.all([get("stats/quality", {}, signal), get("stats/cache", {}, signal)]).then(([quality, cache]) => ({quality, cache}));
    return {};
  }

  /** @param {string} tab */
  choose(tab) {
    this.tab = tab;
    this.loader.data = undefined;
    this.loader.run();
  }

  render() {
    return html`<div class="page">${pageHead(t("Analytics"), {lead: t("The last 30 days. No user, no session and no text is part of these figures.")})}
      ${tabList([["suggestions", t("Suggestions")], ["resources", t("Resources")], ["contexts", t("Contexts")], ["agents", t("Agents and models")], ["quality", t("Quality")]], this.tab, (id) => this.choose(id), t("Analytics"))}
      <div role="tabpanel" aria-labelledby="tab-${this.tab}">${this.tab === "suggestions" ? html`<usage-suggestions></usage-suggestions>` : this.loader.render((data) => this.renderTab(data))}</div></div>`;
  }

  /** @param {any} data */
  renderTab(data) {
    if (this.tab === "agents" && data.agents) return html`<div class="stack">${renderGroups(t("Agents"), data.agents)}${renderGroups(t("Models"), data.models)}</div>`;
    if (this.tab === "quality" && data.quality) return renderQuality(data.quality, data.cache);
    if (data.items) return renderUsage(data.items, this.tab === "contexts");
    return nothing;
  }
}
customElements.define("analytics-page", AnalyticsPage);

/** @param {any[]} items @param {boolean} contexts */
function renderUsage(items, contexts) {
  if (!items.length) return html`<div class="card">${emptyState("chart-line", t("No figures yet"), t("They are counted a few seconds after each request."))}</div>`;
  return html`<section class="card padded table-scroll" tabindex="0" aria-label=${t("Usage")}><table class="plain-table"><thead><tr><th scope="col">${t("Name")}</th>${contexts ? html`<th scope="col" class="numeric">${t("Applied")}</th>` : nothing}
      <th scope="col" class="numeric">${t("Injected")}</th><th scope="col" class="numeric">${t("Fetched")}</th><th scope="col" class="numeric">${t("Missed")}</th><th scope="col" class="numeric">${t("Shown in answers")}</th><th scope="col" class="numeric">${t("Tokens")}</th><th scope="col" class="numeric">${t("Cost")}</th>${contexts ? nothing : html`<th scope="col" class="numeric">${t("Sessions")}</th>`}<th scope="col">${t("Last used")}</th></tr></thead>
    <tbody>${items.map((one) => html`<tr><td><a href=${at(`/contexts/${one.name}`)}>${one.name}</a>${one.injected || one.fetched ? nothing : html` <span class="badge warn">${t("unused")}</span>`}</td>${contexts ? html`<td class="numeric">${formatNumber(one.applied)}</td>` : nothing}
      <td class="numeric">${formatNumber(one.injected)}</td><td class="numeric">${formatNumber(one.fetched)}</td><td class="numeric">${formatNumber(one.missed)}</td><td class="numeric">${formatShare(one.shown_share)}</td><td class="numeric">${formatShort(one.tokens)}</td><td class="numeric">${formatCost(one.cost)}</td>
      ${contexts ? nothing : html`<td class="numeric">${one.sessions ? `${one.sessions.fetched?.count ?? 0} / ${one.sessions.applied?.count ?? 0}` : "–"}</td>`}<td class="muted">${formatAge(one.last_injected || one.last_fetched)}</td></tr>`)}</tbody></table></section>`;
}

/** @param {string} title @param {any[]} items */
function renderGroups(title, items) {
  return html`<section class="card"><div class="card-head"><h2>${title}</h2></div><div class="card-body table-scroll" tabindex="0" aria-label=${title}>${items.length ? html`<table class="plain-table"><thead><tr><th scope="col">${t("Name")}</th><th scope="col" class="numeric">${t("Requests")}</th><th scope="col" class="numeric">${t("Failed")}</th>
      <th scope="col" class="numeric">${t("Context tokens")}</th><th scope="col" class="numeric">${t("Prompt cache")}</th><th scope="col" class="numeric">${t("Mean duration")}</th><th scope="col" class="numeric">${t("Cost")}</th></tr></thead>
    <tbody>${items.map((one) => html`<tr><td>${one.name || t("none")}</td><td class="numeric">${formatNumber(one.requests)}</td><td class="numeric">${formatNumber(one.requests - one.statuses.ok)}</td><td class="numeric">${formatShort(one.context_tokens)}</td><td class="numeric">${formatShare(one.cached_share)}</td>
      <td class="numeric">${one.mean_seconds === null ? "–" : `${formatNumber(Math.round(one.mean_seconds * 1000))} ms`}</td><td class="numeric">${formatCost(one.cost)}</td></tr>`)}</tbody></table>` : html`<p class="muted">${t("None.")}</p>`}</div></section>`;
}
