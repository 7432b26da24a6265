/** How the gateway is doing, at a glance. */
import {html, nothing} from "../../vendor/lit.js";
import {get} from "../../lib/api.js";
import {formatAge, formatCost, formatNumber, formatSeconds, formatShare, formatShort} from "../../lib/format.js";
import {t} from "../../lib/i18n.js";
import {at} from "../../lib/router.js";
import {allows} from "../../lib/state.js";
import {renderCategories} from "../../ui/budget-bar.js";
import {ConsoleElement, Loader} from "../../ui/element.js";
import {icon} from "../../ui/icon.js";
import {emptyState, pageHead, segmented} from "../../ui/parts.js";
import "../../ui/line-chart.js";
import {styled} from "../../ui/style.js";
import {renderHealth} from "./health.js";

const REFRESH_MS = 30000;
const LAST_RECEIPTS = 20;

export class OverviewPage extends ConsoleElement {
  static properties = {span: {state: true}};

  constructor() {
    super();
    this.span = "hour";
    /** @type {any} tokens by category of the last requests; looked up once */
    this.categories = undefined;
    this.figures = new Loader(this, (signal) => this.load(signal));
  }

  connectedCallback() {
    super.connectedCallback();
    this.figures.run();
    this.timer = setInterval(() => document.hidden || this.figures.run(), REFRESH_MS);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    clearInterval(this.timer);
  }

  /** @param {AbortSignal} signal */
  async load(signal) {
    const optional = (/** @type {string} */ path, /** @type {any} */ query = {}) => get(path, query, signal).catch(() => null);
    const [stats, cache, resources, health, links, servers, failures] = await Promise.all([
      get("stats", {bucket: this.span}, signal), optional("stats/cache"), optional("stats/resources", {sort: "injected", take: 6}),
      optional("health"), optional("links", {take: 200}), optional("tool-servers", {take: 200}),
      allows("admin") ? optional("receipts", {status: "error", take: 6}) : null,
    ]);
    if (this.categories === undefined && allows("admin")) this.loadCategories();
    return {stats, cache, resources, health, links, servers, failures};
  }

  /** Beside the rest, since it takes many calls. */
  async loadCategories() {
    this.categories = null;
    this.categories = await sumCategories();
    this.requestUpdate();
  }

  /** @param {string} span */
  choose(span) {
    this.span = span;
    this.figures.run();
  }

  render() {
    return html`<div class="page">
      ${pageHead(t("Overview"), {
        lead: t("What the gateway tells the models, how often, and whether all is well."),
        actions: segmented([["hour", t("24 hours")], ["day", t("30 days")]], this.span, (id) => this.choose(id), t("Period")),
      })}
      ${this.figures.render((data) => data.stats.totals.requests ? this.renderFigures(data) : this.renderStart(data))}</div>`;
  }

  /** @param {any} data */
  renderStart(data) {
    return html`<div class="card">${emptyState("sparkles", t("No requests in this period"),
      t("Point a client's base URL at this gateway, or try it out right here. Figures appear a few seconds after a request."),
      html`<a class="button primary" href=${at("/playground")}>${icon("message-square-text")}${t("Open the playground")}</a>`)}</div>
      ${renderHealth(data)}`;
  }

  /** @param {any} data */
  renderFigures(data) {
    const {totals} = data.stats;
    const failed = totals.requests - totals.statuses.ok;
    const tiles = [
      [t("Requests"), formatShort(totals.requests), failed ? t("{n} failed", {n: failed}) : t("none failed")],
      [t("Mean duration"), formatSeconds(totals.mean_seconds), ""],
      [t("Context tokens"), formatShort(totals.context_tokens), t("{n} per request", {n: Math.round(totals.context_tokens / totals.requests)})],
      [t("Prompt cache"), formatShare(totals.cached_share), t("of prompt tokens")],
      [t("Degraded"), formatNumber(totals.degraded), formatShare(totals.degraded / totals.requests)],
      [t("Cost"), formatCost(totals.cost), t("{n} priced request|{n} priced requests", {n: totals.priced})],
    ];
    return html`<div class="card stats-row">${tiles.map(([name, value, note]) => html`<div class="stat"><span class="name">${name}</span>
        <span class="value">${value}</span><span class="note">${note}</span></div>`)}</div>
      ${this.renderCharts(data.stats)}
      ${this.categories ? html`<section class="card padded stack tight"><div class="row apart"><h2>${t("Context tokens by category")}</h2><span class="muted">${t("the last {n} requests", {n: this.categories.requests})}</span></div>
        ${renderCategories(this.categories.by_category, this.categories.total)}</section>` : nothing}
      ${renderHealth(data)}
      <div class="split even">${renderTop(data.resources)}${renderFailures(data.failures)}</div>`;
  }

  /** @param {any} stats */
  renderCharts(stats) {
    const {times, points} = fillBuckets(stats);
    const pick = (/** @type {(point: any) => number | null} */ read) => points.map((point) => (point ? read(point) : 0));
    const charts = [
      {title: t("Requests"), bars: true, series: [{name: t("Requests"), values: pick((point) => point.requests), format: formatShort}]},
      {title: t("Mean duration"), series: [{name: t("Seconds"), values: points.map((point) => point?.mean_seconds ?? null), format: formatSeconds}]},
      {
        title: t("Context tokens per request"),
        series: [{name: t("Tokens"), values: points.map((point) => (point?.requests ? Math.round(point.context_tokens / point.requests) : null)), format: formatShort}],
      },
    ];
    return html`<div class="cards">${charts.map((chart) => html`<section class="card"><div class="card-head"><h2>${chart.title}</h2></div>
      <div class="card-body"><line-chart .times=${times} .series=${chart.series} .label=${chart.title} ?bars=${chart.bars || false}></line-chart></div></section>`)}</div>`;
  }
}
customElements.define("overview-page", OverviewPage);

/** What the last requests were given, by category. */
async function sumCategories() {
  const {items} = await get("receipts", {take: LAST_RECEIPTS}).catch(() => ({items: []}));
  const receipts = await Promise.all(items.map((/** @type {any} */ one) => get(`receipts/${one.id}`).catch(() => null)));
  /** @type {Record<string, number>} */
  const sums = {};
  for (const receipt of receipts) for (const [name, count] of Object.entries(receipt?.tokens?.by_category || {})) sums[name] = (sums[name] || 0) + Number(count);
  const total = Object.values(sums).reduce((one, other) => one + other, 0);
  return total ? {by_category: sums, total, requests: items.length} : null;
}

/** Every bucket of the period; the API leaves out those without requests. @param {any} stats */
function fillBuckets(stats) {
  const step = stats.bucket === "hour" ? 3600 : 86400;
  const known = new Map(stats.points.map((/** @type {any} */ point) => [Math.floor(Date.parse(point.start) / 1000), point]));
  const times = [], points = [];
  for (let time = Math.floor(Date.parse(stats.from) / 1000); time < Date.parse(stats.to) / 1000; time += step) {
    times.push(time);
    points.push(/** @type {any} */ (known.get(time)));
  }
  return {times, points};
}

/** @param {any} resources */
function renderTop(resources) {
  const items = resources?.items || [];
  const most = Math.max(1, ...items.map((/** @type {any} */ item) => item.injected));
  return html`<section class="card"><div class="card-head"><h2>${t("Most used resources")}</h2><a href=${at("/analytics")}>${t("Analytics")}</a></div>
    <div class="card-body stack">${items.length ? items.map((/** @type {any} */ item) => html`<div class="meter-line">
      <a class="truncate" href=${at(`/contexts/${item.name}`)}>${item.name}</a><span class="numeric muted">${formatNumber(item.injected)}</span>
      <span class="track"><i ${styled({width: `${(100 * item.injected) / most}%`})}></i></span></div>`) : html`<p class="muted">${t("Nothing was injected yet.")}</p>`}</div></section>`;
}

/** @param {any} failures */
function renderFailures(failures) {
  if (!failures) return nothing;
  return html`<section class="card"><div class="card-head"><h2>${t("Recent failures")}</h2><a href=${at("/receipts?status=error")}>${t("All")}</a></div>
    <div class="card-body">${failures.items.length ? html`<ul class="line-list">${failures.items.map((/** @type {any} */ receipt) => html`<li>
      <a href=${at(`/receipts/${receipt.id}`)}><code>${receipt.error || receipt.status}</code></a>
      <span class="muted grow truncate">${receipt.agent || receipt.model || ""}</span><span class="muted">${formatAge(receipt.at)}</span></li>`)}</ul>`
    : html`<p class="muted">${t("No failures. Lovely.")}</p>`}</div></section>`;
}
