/** How the tokens of a request divide into categories, and how much of the budget is left. */
import {html, nothing} from "../vendor/lit.js";
import {formatNumber} from "../lib/format.js";
import {t} from "../lib/i18n.js";
import {styled} from "./style.js";

const COLORS = /** @type {Record<string, number>} */ ({always: 1, semantic: 2, tools: 3, catalogue: 4, named: 5, focus: 6, knowledge: 6, relations: 8, activity: 5, items: 8, frame: 7});

/** @param {string} category */
export function nameCategory(category) {
  const names = /** @type {Record<string, string>} */ ({
    always: t("Always"), semantic: t("Semantic"), tools: t("Tools"), catalogue: t("Catalogue"), named: t("By name"), focus: t("Focus"), knowledge: t("Knowledge"),
    relations: t("Relations"), activity: t("Activity"), items: t("Request"), frame: t("Markers"),
  });
  return names[category] || category;
}

/** @param {any} tokens */
export function renderBudget(tokens) {
  if (!tokens) return nothing;
  const whole = Math.max(tokens.budget || 0, tokens.total || 0, 1);
  return html`<section class="card padded stack tight"><div class="row apart"><h2>${t("Budget")}</h2><span class="numeric soft">${t("{n} of {total} tokens", {n: tokens.total, total: tokens.budget ?? "–"})}</span></div>
    ${renderCategories(tokens.by_category || {}, whole)}</section>`;
}

/** A bar with its legend. @param {Record<string, number>} categories @param {number} whole */
export function renderCategories(categories, whole) {
  const parts = Object.entries(categories).filter(([, count]) => count > 0);
  return html`<div class="bar" role="img" aria-label=${parts.map(([name, count]) => `${nameCategory(name)} ${count}`).join(", ") || t("Nothing was added.")}>
      ${parts.map(([name, count]) => html`<i class="c${COLORS[name] || 7}" title=${`${nameCategory(name)}: ${count}`} ${styled({width: `${(100 * count) / whole}%`})}></i>`)}</div>
    <div class="legend">${parts.map(([name, count]) => html`<span><i class="c${COLORS[name] || 7}"></i>${nameCategory(name)} <span class="numeric muted">${formatNumber(count)}</span></span>`)}</div>`;
}
