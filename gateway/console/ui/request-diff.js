/** The difference between two outgoing requests, as `/diff` describes it. */
import {html, nothing} from "../vendor/lit.js";
import {t} from "../lib/i18n.js";
import {renderChanges, renderUnified} from "./diff-view.js";
import {modeBadge} from "./parts.js";

/** @param {any} diff */
export function renderDifference(diff) {
  const {added = [], removed = [], changed = [], moved = []} = diff.items || {};
  const groups = /** @type {[string, string, any[]][]} */ ([[t("New"), "good", added], [t("Gone"), "bad", removed], [t("Changed"), "warn", changed], [t("Moved"), "info", moved]]);
  return html`<div class="stack">
    ${groups.map(([title, kind, items]) => items.length ? html`<section class="card"><div class="card-head"><h2>${title}</h2><span class="badge ${kind}">${items.length}</span></div><ul class="line-list padded-list">
      ${items.map((item) => html`<li><span class="grow truncate">${item.name || item.id}</span>${item.mode ? modeBadge(item.mode) : nothing}<span class="muted">${describeItem(item)}</span></li>`)}</ul></section>` : nothing)}
    ${renderNames(t("Offered on demand"), diff.catalogue)}${renderNames(t("Tools"), diff.tools)}${renderNames(t("Left out"), diff.dropped)}
    ${diff.messages ? html`<section class="card"><div class="card-head"><h2>${t("The messages, line by line")}</h2></div><div class="card-body">${renderUnified(diff.messages)}</div></section>` : nothing}
    ${diff.fields?.length ? renderChanges(diff.fields) : nothing}</div>`;
}

/** @param {any} item */
function describeItem(item) {
  if (item.fields) return item.fields.join(", ");
  if (item.from !== undefined) return `${item.from} → ${item.to}`;
  return item.why || "";
}

/** @param {string} title @param {any} names */
function renderNames(title, names) {
  if (!names?.added?.length && !names?.removed?.length) return nothing;
  return html`<section class="card"><div class="card-head"><h2>${title}</h2></div><ul class="line-list padded-list">
    ${(names.added || []).map((/** @type {any} */ name) => html`<li><span class="badge good">+</span><code class="grow">${name.id || name}</code></li>`)}
    ${(names.removed || []).map((/** @type {any} */ name) => html`<li><span class="badge bad">−</span><code class="grow">${name.id || name}</code></li>`)}</ul></section>`;
}
