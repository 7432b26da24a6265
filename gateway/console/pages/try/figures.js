/** How good the saved cases are now and with the drafts, and what requests cost. */
import {html, nothing} from "../../vendor/lit.js";
import {formatNumber, formatShare} from "../../lib/format.js";
import {t} from "../../lib/i18n.js";

/** @typedef {{name: string, hint: string, before: number | null, after: number | null, share: boolean, lessIsBetter: boolean}} Figure */

/**
 * @param {any} figures of the saved cases, as a run tells them; null: none were run
 * @param {import("./cases.js").CaseResult[]} results
 */
export function renderFigures(figures, results) {
  const rows = [...(figures ? listShares(figures) : []), ...listTokens(results)];
  if (!rows.length) return nothing;
  return html`<section class="card"><div class="card-head"><h2>${t("Before and after")}</h2></div><div class="card-body table-scroll" tabindex="0" aria-label=${t("Before and after")}>
    <table class="plain-table"><thead><tr><th scope="col">${t("Figure")}</th><th scope="col" class="numeric">${t("Now")}</th><th scope="col" class="numeric">${t("With the drafts")}</th><th scope="col" class="numeric">${t("Change")}</th></tr></thead>
      <tbody>${rows.map((row) => html`<tr><td>${row.name}<span class="sub">${row.hint}</span></td><td class="numeric">${show(row, row.before)}</td><td class="numeric">${show(row, row.after)}</td><td class="numeric">${renderChange(row)}</td></tr>`)}</tbody></table></div></section>`;
}

/** @param {any} figures @returns {Figure[]} */
function listShares({from, to}) {
  const texts = /** @type {[string, string, string, boolean][]} */ ([
    ["recall", t("Found"), t("Of what the saved cases should get, how much they got"), false],
    ["precision", t("Fitting"), t("Of what was found, how much was expected"), false],
    ["false_injections", t("Found for nothing"), t("Cases that should find nothing and got something"), true],
    ["r_at_1", t("Best first"), t("Cases whose best score is an expected resource"), false],
  ]);
  return texts.map(([key, name, hint, lessIsBetter]) => ({name, hint, before: from[key], after: to[key], share: true, lessIsBetter}));
}

/** @param {import("./cases.js").CaseResult[]} results @returns {Figure[]} */
function listTokens(results) {
  const pairs = results.filter((one) => one.tokens);
  if (!pairs.length) return [];
  const mean = (/** @type {"from" | "to"} */ side) => Math.round(pairs.reduce((sum, one) => sum + (one.tokens?.[side] || 0), 0) / pairs.length);
  return [{name: t("Context tokens"), hint: t("Mean of {n} request|Mean of {n} requests", {n: pairs.length}), before: mean("from"), after: mean("to"), share: false, lessIsBetter: true}];
}

/** @param {Figure} row @param {number | null} value */
const show = (row, value) => (row.share ? formatShare(value) : formatNumber(value));

/** @param {Figure} row */
function renderChange(row) {
  if (row.before === null || row.after === null || row.before === row.after) return html`<span class="muted">–</span>`;
  const better = row.after > row.before !== row.lessIsBetter;
  const sign = row.after > row.before ? "+" : "−";
  return html`<span class="badge ${better ? "good" : "warn"}">${sign}${show(row, Math.abs(row.after - row.before))}</span>`;
}
