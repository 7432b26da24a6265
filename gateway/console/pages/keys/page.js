/** API keys: create, limit, revoke. */
import {html, nothing} from "../../vendor/lit.js";
import {call, encode, get} from "../../lib/api.js";
import {formatTime} from "../../lib/format.js";
import {t} from "../../lib/i18n.js";
import {getState, notify} from "../../lib/state.js";
import {confirmAction, showDialog} from "../../ui/dialog.js";
import {ConsoleElement, Loader} from "../../ui/element.js";
import {icon} from "../../ui/icon.js";
import {emptyState, noticeBox, pageHead} from "../../ui/parts.js";
import {editKey} from "./edit-key.js";

export class KeysPage extends ConsoleElement {
  constructor() {
    super();
    this.loader = new Loader(this, (signal) => get("keys", {take: 1000}, signal));
  }

  connectedCallback() {
    super.connectedCallback();
    this.loader.run();
  }

  async create() {
    const body = await editKey(null, Boolean(getState().identity?.anonymous));
    if (!body) return;
    try {
      const {data} = await call("POST", "keys", {body});
      await showSecret(data);
      if (getState().identity?.anonymous) location.reload();
      else await this.loader.run();
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
      await this.loader.run();
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
      await this.loader.run();
    } catch (/** @type {any} */ error) {
      notify("bad", error.message);
    }
  }

  render() {
    return html`<div class="page">${pageHead(t("Keys"), {lead: t("Every client and every person has a key of its own. The role says what it may do."), actions: html`<button class="button primary" @click=${this.create}>${icon("plus")}${t("New key")}</button>`})}
      ${this.loader.render(({items}) => items.length ? html`<section class="card padded table-scroll" tabindex="0" aria-label=${t("Keys")}><table class="plain-table"><thead><tr><th scope="col">${t("Name")}</th><th scope="col">${t("Role")}</th><th scope="col">${t("Agents")}</th><th scope="col">${t("Limits")}</th><th scope="col">${t("Expires")}</th><th scope="col"><span class="visually-hidden">${t("Actions")}</span></th></tr></thead>
        <tbody>${items.map((/** @type {any} */ key) => this.renderKey(key))}</tbody></table></section>`
        : html`${noticeBox("info", t("There are no keys yet: everybody on this machine is an admin. From the first key on, everybody needs one, so create an admin key first."))}<div class="card">${emptyState("key", t("No keys yet"))}</div>`)}</div>`;
  }

  /** @param {any} key */
  renderKey(key) {
    const limits = [key.limits?.requests ? t("{n} requests/min", {n: key.limits.requests}) : "", key.limits?.tokens ? t("{n} tokens/min", {n: key.limits.tokens}) : ""].filter(Boolean).join(", ");
    const fixed = key.source === "config";
    return html`<tr><td><strong>${key.name}</strong><span class="sub mono">${key.id}</span></td><td><span class="badge ${key.role === "admin" ? "bad" : key.role === "editor" ? "semantic" : "info"}">${key.role}</span></td>
      <td>${key.agent || (key.agents ? key.agents.join(", ") : t("all"))}</td><td>${limits || "–"}</td><td>${key.expires_at ? formatTime(key.expires_at) : "–"}</td>
      <td class="right">${fixed ? html`<span class="badge outline">${icon("lock")}${t("configured")}</span>` : html`<button class="button small" @click=${() => this.change(key)}>${t("Edit")}</button> <button class="button small danger" @click=${() => this.revoke(key)}>${t("Revoke")}</button>`}${nothing}</td></tr>`;
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
