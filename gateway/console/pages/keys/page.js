/** API keys: create, limit, revoke. */
import {html} from "../../vendor/lit.js";
import {call, encode, get} from "../../lib/api.js";
import {formatTime} from "../../lib/format.js";
import {t} from "../../lib/i18n.js";
import {at} from "../../lib/router.js";
import {getState, notify} from "../../lib/state.js";
import {confirmAction, showDialog} from "../../ui/dialog.js";
import {ConsoleElement} from "../../ui/element.js";
import {icon} from "../../ui/icon.js";
import {emptyState, noticeBox, pageHead} from "../../ui/parts.js";
import "../../ui/virtual-list.js";
import {editKey} from "./edit-key.js";

export class KeysPage extends ConsoleElement {
  constructor() {
    super();
    this.fetchPage = this.makeFetch();
  }

  makeFetch() {
    return (/** @type {number} */ skip, /** @type {number} */ take) => get("keys", {skip, take});
  }

  reload() {
    this.fetchPage = this.makeFetch();
    this.requestUpdate();
  }

  async create() {
    const body = await editKey(null, Boolean(getState().identity?.anonymous));
    if (!body) return;
    try {
      const {data} = await call("POST", "keys", {body});
      await showSecret(data);
      if (getState().identity?.anonymous) location.reload();
      else this.reload();
    } catch (/** @type {any} */ error) {
      notify("bad", error.errors?.[0]?.message || error.message);
    }
  }

  /** @param {any} key */
  async change(key) {
    const body = await editKey(key);
    if (!body) return;
    try {
      await call("PUT", `keys/${encode(key.id)}`, {body});
      notify("good", t("Saved."));
      this.reload();
    } catch (/** @type {any} */ error) {
      notify("bad", error.errors?.[0]?.message || error.message);
    }
  }

  /** @param {any} key */
  async revoke(key) {
    if (!(await confirmAction(t("Revoke {name}?", {name: key.name}), t("Clients that use it are refused from now on."), {label: t("Revoke"), danger: true}))) return;
    try {
      await call("DELETE", `keys/${encode(key.id)}`);
      notify("good", t("Revoked."));
      this.reload();
    } catch (/** @type {any} */ error) {
      notify("bad", error.message);
    }
  }

  render() {
    return html`<div class="page">${pageHead(t("Keys"), {lead: t("Every client and every person has a key of its own. The role says what it may do."), actions: html`<button class="button primary" @click=${this.create}>${icon("plus")}${t("New key")}</button>`})}
      <virtual-list .label=${t("Keys")} .fetchPage=${this.fetchPage} .rowHeight=${60} .columns=${this.listColumns()} .href=${() => at("/keys")} .open=${(/** @type {any} */ key) => key.source === "config" || this.change(key)}
        .empty=${html`<div class="stack">${noticeBox("info", t("There are no keys yet: everybody on this machine is an admin. From the first key on, everybody needs one, so create an admin key first."))}<div class="card">${emptyState("key", t("No keys yet"))}</div></div>`}></virtual-list></div>`;
  }

  /** @returns {import("../../ui/virtual-list.js").Column[]} */
  listColumns() {
    const limits = (/** @type {any} */ key) => [key.limits?.requests ? t("{n} requests/min", {n: key.limits.requests}) : "", key.limits?.tokens ? t("{n} tokens/min", {n: key.limits.tokens}) : ""].filter(Boolean).join(", ");
    return [
      {title: t("Name"), width: "minmax(0, 1.6fr)", cell: (key) => html`${key.name}<span class="sub mono">${key.id}</span>`},
      {title: t("Role"), width: "80px", cell: (key) => html`<span class="badge ${key.role === "admin" ? "bad" : key.role === "editor" ? "semantic" : "info"}">${key.role}</span>`},
      {title: t("Agents"), width: "minmax(0, 1fr)", className: "wide-only", cell: (key) => key.agent || (key.agents ? key.agents.join(", ") : t("all"))},
      {title: t("Limits"), width: "minmax(0, 1fr)", className: "wide-only", cell: (key) => limits(key) || "–"},
      {title: t("Expires"), width: "150px", className: "wide-only", cell: (key) => (key.expires_at ? formatTime(key.expires_at) : "–")},
      {title: t("Actions"), width: "150px", cell: (key) => (key.source === "config" ? html`<span class="badge outline">${icon("lock")}${t("configured")}</span>`
        : html`<span class="row tight-row"><button class="button small" @click=${() => this.change(key)}>${t("Edit")}</button><button class="button small danger" @click=${() => this.revoke(key)}>${t("Revoke")}</button></span>`)},
    ];
  }
}
customElements.define("keys-page", KeysPage);

/** @param {any} key */
function showSecret(key) {
  return showDialog({
    heading: t("The new key"),
    body: () => html`<p class="soft">${t("Copy it now: it is shown only this once.")}</p><div class="row"><input class="grow mono" readonly aria-label=${t("Key")} .value=${key.key} @focus=${(/** @type {any} */ event) => event.target.select()}>
      <button class="button" @click=${() => navigator.clipboard?.writeText(key.key).then(() => notify("good", t("Copied.")), () => {})}>${icon("copy")}${t("Copy")}</button></div>`,
    footer: (close) => html`<button class="button primary" @click=${() => close()}>${t("Done")}</button>`,
  });
}
