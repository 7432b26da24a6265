/** Where a context is used, in short and at length. */
import {html} from "../../vendor/lit.js";
import {t} from "../../lib/i18n.js";
import {at} from "../../lib/router.js";
import {icon} from "../../ui/icon.js";
import {nameLevel} from "../../ui/parts.js";

const PATHS = /** @type {Record<string, string>} */ ({profile: "/profiles/", agent: "/agents/", prompt: "/prompts/", content: "/content?node="});
const ICONS = /** @type {Record<string, string>} */ ({profile: "sliders-horizontal", agent: "bot", prompt: "quote", content: "folder-tree", global: "globe"});

/** @param {{items: any[], total: number} | undefined} uses */
export function renderUses(uses) {
  if (!uses) return html`<span class="muted">…</span>`;
  const {items, total} = uses;
  if (!total) return html`<span class="muted">${t("Not used")}</span>`;
  return html`${items.slice(0, 2).map((use) => use.name || use.entity).join(", ")}<span class="sub">${total > 2 ? t("and {n} more", {n: total - 2}) : items.map((use) => nameLevel(use.level)).join(", ")}</span>`;
}

/** @param {any[]} uses */
export function renderUseList(uses) {
  if (!uses.length) return html`<div class="stack tight"><p class="muted">${t("Nothing uses this context yet. Assign it to an agent, a profile, a prompt or content.")}</p>
    <div class="row"><a class="button small" href=${at("/agents")}>${icon("bot")}${t("Agents")}</a><a class="button small" href=${at("/content")}>${icon("folder-tree")}${t("Content")}</a></div></div>`;
  const ways = /** @type {Record<string, string>} */ ({assignment: t("assigned"), default: t("global default"), mandatory: t("mandatory")});
  return html`<ul class="line-list">${uses.map((use) => html`<li>${icon(ICONS[use.level] || "layers")}
    <span class="grow truncate">${PATHS[use.level] ? html`<a href=${at(PATHS[use.level] + encodeURIComponent(use.entity))}>${use.name || use.entity}</a>` : use.name || nameLevel(use.level)}
      ${use.path ? html`<span class="muted">${use.path}</span>` : ""}</span>
    ${use.inherited ? html`<span class="muted">${t("{n} node inherits it|{n} nodes inherit it", {n: use.inherited})}</span>` : ""}
    <span class="badge">${nameLevel(use.level)} · ${ways[use.through] || use.through}</span></li>`)}</ul>`;
}
