import {html} from "../../vendor/lit.js";
import {formatShare} from "../../lib/format.js";
import {t} from "../../lib/i18n.js";
import "../../ui/line-chart.js";

/** @param {any} quality @param {any} cache */
export function renderQuality(quality, cache) {
  const {totals} = quality;
  const tiles = [
    [t("Search picked something"), totals.picked_share], [t("Picks shown in answers"), totals.shown_share], [t("Misses"), totals.missed_share], [t("Over budget"), totals.over_budget_share], [t("Degraded"), totals.degraded_share],
    [t("Prompt cache"), cache.prompt.totals.cached_share], [t("Known question vectors"), cache.query_embeddings.hit_share],
  ];
  const times = quality.points.map((/** @type {any} */ point) => Date.parse(point.start) / 1000);
  const line = (/** @type {string} */ name, /** @type {string} */ field) => ({name, values: quality.points.map((/** @type {any} */ point) => point[field]), format: formatShare});
  return html`<div class="stack"><div class="card stats-row">${tiles.map(([name, value]) => html`<div class="stat"><span class="name">${name}</span><span class="value">${formatShare(value)}</span></div>`)}</div>
    ${times.length ? html`<section class="card"><div class="card-head"><h2>${t("Over time")}</h2></div><div class="card-body"><line-chart .times=${times} .label=${t("Quality over time")} .height=${240}
      .series=${[line(t("picked"), "picked_share"), line(t("shown"), "shown_share"), line(t("missed"), "missed_share")]}></line-chart></div></section>` : ""}</div>`;
}
