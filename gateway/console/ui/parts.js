/** Small templates that many pages use. */
import {html, nothing} from "../vendor/lit.js";
import {t} from "../lib/i18n.js";
import {at} from "../lib/router.js";
import {icon} from "./icon.js";

/** The address of a content node. @param {string} id or path */
export const hrefOfNode = (id) => `/content?node=${encodeURIComponent(id)}`;

/** The address of a session. @param {string} id */
export const hrefOfSession = (id) => `/sessions?id=${encodeURIComponent(id)}`;

export const MODES = ["always", "semantic", "on_demand", "manual"];

/** @param {string} mode */
export function nameMode(mode) {
  const names = /** @type {Record<string, string>} */ ({
    always: t("Always"), semantic: t("Semantic"), on_demand: t("On demand"), manual: t("Manual"),
  });
  return names[mode] || mode;
}

/** @param {string} mode */
export function explainMode(mode) {
  const texts = /** @type {Record<string, string>} */ ({
    always: t("Placed in every request that the context applies to. Best for short rules."),
    semantic: t("Placed when it is relevant to the question; the model can also fetch it."),
    on_demand: t("Only listed by name and description; the model fetches it if it needs it."),
    manual: t("Only placed when a session or a request asks for it."),
  });
  return texts[mode] || "";
}

/** @param {string} mode */
export const modeBadge = (mode) => html`<span class="badge ${mode}">${nameMode(mode)}</span>`;

/** @param {string} level */
export function nameLevel(level) {
  const names = /** @type {Record<string, string>} */ ({
    global: t("Global"), profile: t("Profile"), agent: t("Agent"), prompt: t("Prompt"), content: t("Content"),
    session: t("Session"), request: t("Request"),
  });
  return names[level] || level;
}

/** Where an object comes from, if not from the store. @param {any} object */
export function sourceBadge(object) {
  if (object.source !== "file") return object.shadows ? html`<span class="badge outline">${t("Adopted")}</span>` : nothing;
  return html`<span class="badge outline" title=${object.file || ""}>${icon("lock")} ${t("File")}</span>`;
}

/**
 * @param {string} title
 * @param {{lead?: unknown, crumbs?: [string, string][], actions?: unknown, badges?: unknown}} [more]
 */
export function pageHead(title, {lead, crumbs, actions, badges} = {}) {
  return html`<header class="page-head">
    <div>
      ${crumbs ? html`<nav class="crumbs" aria-label=${t("Breadcrumb")}>
        ${crumbs.map(([name, path], index) => html`${index ? html`<span aria-hidden="true">/</span>` : nothing}<a href=${at(path)}>${name}</a>`)}</nav>` : nothing}
      <div class="row"><h1 tabindex="-1">${title}</h1>${badges || nothing}</div>
      ${lead ? html`<p class="lead">${lead}</p>` : nothing}
    </div>
    ${actions ? html`<div class="actions">${actions}</div>` : nothing}
  </header>`;
}

export const renderLoading = () =>
  html`<div class="loading" role="status"><span class="spinner"></span><span>${t("Loading…")}</span></div>`;

/**
 * @param {any} error
 * @param {() => void} [retry]
 */
export function renderFailure(error, retry) {
  return html`<div class="notice-box bad" role="alert">${icon("circle-alert")}
    <div class="grow"><strong>${error.status === 404 ? t("Not found") : t("That did not work")}</strong>
      <div>${error.message}</div></div>
    ${retry ? html`<button class="button small" @click=${retry}>${t("Try again")}</button>` : nothing}</div>`;
}

/**
 * @param {string} name of an icon
 * @param {string} title
 * @param {unknown} [text]
 * @param {unknown} [action]
 */
export function emptyState(name, title, text, action) {
  return html`<div class="empty"><span class="empty-icon">${icon(name)}</span><h2>${title}</h2>
    ${text ? html`<p>${text}</p>` : nothing}${action || nothing}</div>`;
}

/**
 * @param {"info" | "warn" | "bad" | "good"} kind
 * @param {unknown} body
 * @param {unknown} [action]
 */
export function noticeBox(kind, body, action) {
  const icons = {info: "circle-question-mark", warn: "triangle-alert", bad: "circle-alert", good: "circle-check"};
  return html`<div class="notice-box ${kind}">${icon(icons[kind])}<div class="grow">${body}</div>${action || nothing}</div>`;
}

/**
 * A list of tabs; arrow keys move between them.
 * @param {[string, unknown][]} tabs id and label
 * @param {string} active
 * @param {(id: string) => void} choose
 * @param {string} label
 */
export function tabList(tabs, active, choose, label) {
  const move = (/** @type {KeyboardEvent} */ event) => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!step) return;
    const index = tabs.findIndex(([id]) => id === active);
    const [next] = tabs[(index + step + tabs.length) % tabs.length];
    choose(next);
    const list = /** @type {HTMLElement} */ (event.currentTarget);
    setTimeout(() => /** @type {HTMLElement | null} */ (list.querySelector('[aria-selected="true"]'))?.focus());
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} @keydown=${move}>
    ${tabs.map(([id, name]) => html`<button class="tab" role="tab" id="tab-${id}" aria-selected=${String(id === active)}
      tabindex=${id === active ? 0 : -1} @click=${() => choose(id)}>${name}</button>`)}
  </div>`;
}

/**
 * A few choices beside each other.
 * @param {[string, string][]} options
 * @param {string} value
 * @param {(value: string) => void} choose
 * @param {string} label
 */
export function segmented(options, value, choose, label) {
  return html`<div class="segmented" role="group" aria-label=${label}>
    ${options.map(([id, name]) => html`<button type="button" aria-pressed=${String(id === value)} @click=${() => choose(id)}>${name}</button>`)}
  </div>`;
}

/**
 * @param {string} placeholder
 * @param {string} value
 * @param {(value: string) => void} changed
 */
export function searchField(placeholder, value, changed) {
  return html`<label class="search-field">${icon("search")}<input type="search" placeholder=${placeholder} aria-label=${placeholder}
    .value=${value} @input=${(/** @type {any} */ event) => changed(event.target.value)}></label>`;
}

/** The page scrolled to its first fault, with the fault's field focused. @param {HTMLElement} host */
export function focusFirstFault(host) {
  setTimeout(() => /** @type {HTMLElement | null} */ (host.querySelector('[aria-invalid="true"]'))?.focus());
}
