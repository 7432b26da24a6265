/** Conversations: what was added, kept and removed, and their settings. */
import {html, nothing} from "../../vendor/lit.js";
import {call, encode, get} from "../../lib/api.js";
import {formatAge} from "../../lib/format.js";
import {t} from "../../lib/i18n.js";
import {at, navigate} from "../../lib/router.js";
import {allows, notify} from "../../lib/state.js";
import {confirmAction} from "../../ui/dialog.js";
import {ConsoleElement, Loader} from "../../ui/element.js";
import {icon} from "../../ui/icon.js";
import {emptyState, modeBadge, pageHead} from "../../ui/parts.js";
import "../../ui/virtual-list.js";
import {renderSessionSettings} from "./settings.js";

export class SessionsPage extends ConsoleElement {
  static properties = {query: {attribute: false}};

  constructor() {
    super();
    /** @type {URLSearchParams} */
    this.query = new URLSearchParams();
    this.loader = new Loader(this, (signal) => this.load(signal));
    this.fetchPage = (/** @type {number} */ skip, /** @type {number} */ take) => get("sessions", {skip, take});
  }

  /** @param {Map<string, unknown>} changed */
  willUpdate(changed) {
    if (!changed.has("query")) return;
    this.loader.data = undefined;
    if (this.session) this.loader.run();
  }

  get session() {
    return this.query.get("id") || "";
  }

  get path() {
    return `sessions/${encode(this.session)}`;
  }

  /** Whose session it is. */
  get owner() {
    return {principal: this.query.get("principal") || undefined, user: this.query.get("user") || undefined};
  }

  /** @param {AbortSignal} signal */
  async load(signal) {
    const [session, items] = await Promise.all([get(this.path, this.owner, signal), get(`${this.path}/items`, this.owner, signal)]);
    return {session, items: items.items};
  }

  /** @param {() => Promise<any>} act @param {string} message */
  async attempt(act, message) {
    try {
      await act();
      notify("good", message);
      await this.loader.run();
    } catch (/** @type {any} */ error) {
      notify("bad", error.errors?.[0]?.message || error.message);
    }
  }

  /** @param {SubmitEvent} event */
  add(event) {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    const id = String(new FormData(form).get("id")).trim();
    return this.attempt(() => call("POST", `${this.path}/items`, {query: this.owner, body: {id}}), t("Added.")).then(() => form.reset());
  }

  /** @param {any} item */
  change(item) {
    const path = `${this.path}/items/${item.id.split("/").map(encode).join("/")}`;
    if (item.state === "removed") return this.attempt(() => call("POST", `${path}/restore`, {query: this.owner}), t("Restored."));
    return this.attempt(() => call("DELETE", path, {query: this.owner}), t("Removed."));
  }

  async deleteObject() {
    if (!(await confirmAction(t("End this session?"), t("What it added, removed and kept is forgotten."), {label: t("End"), danger: true}))) return;
    await call("DELETE", this.path, {query: this.owner});
    notify("good", t("Ended."));
    navigate("/sessions");
  }

  render() {
    if (this.session) return html`<div class="page">${this.loader.render((loaded) => this.renderSession(loaded))}</div>`;
    return html`<div class="page">${pageHead(t("Sessions"), {lead: t("Conversations that clients named. Each remembers what was added, removed and fetched.")})}
      <virtual-list .label=${t("Sessions")} .fetchPage=${this.fetchPage} .rowHeight=${56} .href=${hrefOf} .columns=${listColumns()}
        .empty=${html`<div class="card">${emptyState("message-square", t("No sessions yet"), t("A request names one with x-context-session."))}</div>`}></virtual-list></div>`;
  }

  /** @param {any} loaded */
  renderSession({session, items}) {
    return html`${pageHead(session.id, {
        crumbs: [[t("Sessions"), "/sessions"]], lead: html`${session.principal}${session.user ? ` · ${session.user}` : ""} · ${t("last used {age}", {age: formatAge(session.updated_at)})}${session.content ? html` · ${t("about {name}", {name: session.content})}` : nothing}`,
        actions: html`<a class="button" href=${at(`/playground?session=${encode(session.id)}`)}>${icon("message-square-text")}${t("Chat")}</a>${allows("admin") ? html`<a class="button" href=${at(`/receipts?session=${encode(session.id)}`)}>${icon("receipt-text")}${t("Receipts")}</a>` : nothing}
          <button class="button danger" @click=${this.deleteObject}>${icon("trash")}${t("End")}</button>`,
      })}
      <div class="split"><section class="card"><div class="card-head"><h2>${t("Items")}</h2></div><div class="card-body stack">
          ${items.length ? html`<ul class="line-list">${items.map((/** @type {any} */ item) => this.renderItem(item))}</ul>` : html`<p class="muted">${t("Nothing was added, removed or kept: the session gets what its agent gets.")}</p>`}
          <form class="row" @submit=${this.add}><input class="grow mono" name="id" required aria-label=${t("Id of a resource")} placeholder="context/resource"><button class="button">${icon("plus")}${t("Add")}</button></form></div></section>
        ${renderSessionSettings(session, (settings) => this.attempt(() => call("PUT", this.path, {query: this.owner, body: {settings, content: session.content}}), t("Saved.")))}</div>`;
  }

  /** @param {any} item */
  renderItem(item) {
    const states = /** @type {Record<string, [string, string]>} */ ({added: [t("added"), "good"], removed: [t("removed"), "bad"], retained: [t("kept"), "info"], sticky: [t("stays"), "semantic"]});
    const [name, kind] = states[item.state] || [item.state, ""];
    return html`<li><span class="badge ${kind}">${name}</span><span class="grow truncate">${item.name || item.id} <code class="muted">${item.id}</code></span>${item.mode ? modeBadge(item.mode) : nothing}
      <button class="button small" @click=${() => this.change(item)}>${item.state === "removed" ? t("Restore") : t("Remove")}</button></li>`;
  }
}
customElements.define("sessions-page", SessionsPage);

/** @param {any} session */
function hrefOf(session) {
  const query = new URLSearchParams({id: session.id});
  if (allows("editor") && session.principal && session.principal !== "anonymous") query.set("principal", session.principal);
  if (session.user) query.set("user", session.user);
  return at(`/sessions?${query}`);
}

/** @returns {import("../../ui/virtual-list.js").Column[]} */
function listColumns() {
  const count = (/** @type {any} */ one) => [[one.added, t("{n} added", {n: one.added.length})], [one.removed, t("{n} removed", {n: one.removed.length})], [one.retained, t("{n} kept", {n: one.retained.length})]]
    .filter(([list]) => list.length).map(([, text]) => text).join(", ");
  return [
    {title: t("Session"), width: "minmax(0, 2fr)", cell: (one) => html`${one.id}<span class="sub">${one.principal}${one.user ? ` · ${one.user}` : ""}</span>`},
    {title: t("Content"), width: "minmax(0, 1fr)", className: "wide-only", cell: (one) => one.content || "–"},
    {title: t("Items"), width: "minmax(0, 1fr)", className: "wide-only", cell: (one) => count(one) || "–"},
    {title: t("Last used"), width: "130px", cell: (one) => formatAge(one.updated_at)},
  ];
}
