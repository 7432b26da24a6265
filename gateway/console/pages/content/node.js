/** `<content-node>`: one node with its contexts, its text, links and readers. */
import {html, nothing} from "../../vendor/lit.js";
import {call, encode, get} from "../../lib/api.js";
import {t} from "../../lib/i18n.js";
import {at, navigate} from "../../lib/router.js";
import {notify} from "../../lib/state.js";
import {confirmAction} from "../../ui/dialog.js";
import {ConsoleElement, Loader} from "../../ui/element.js";
import {icon} from "../../ui/icon.js";
import {releaseButton, renderFileNotice} from "../../ui/ownership.js";
import {hrefOfNode, sourceBadge, tabList} from "../../ui/parts.js";
import {renderVersions} from "../../ui/versions.js";
import "../../ui/context-picker.js";

export class ContentNode extends ConsoleElement {
  static properties = {node: {}, tab: {state: true}, assigned: {state: true}, inherit: {state: true}};

  constructor() {
    super();
    this.node = "";
    this.tab = "contexts";
    /** @type {string[]} */
    this.assigned = [];
    this.inherit = "nearest";
    /** @type {Loader<any>} */
    this.loader = new Loader(this, (signal) => this.load(signal));
  }

  get path() {
    return `content/${encode(this.node)}`;
  }

  /** @param {Map<string, unknown>} changed */
  willUpdate(changed) {
    if (changed.has("node") && this.node) this.loader.run();
  }

  /** @param {AbortSignal} signal */
  async load(signal) {
    const [node, contexts, links] = await Promise.all([call("GET", this.path, {signal}), get(`${this.path}/context`, {}, signal), get(`${this.path}/links`, {}, signal).catch(() => ({links: [], backlinks: []}))]);
    this.assigned = contexts.assigned;
    this.inherit = contexts.inherit;
    return {node: node.data, etag: node.etag, contexts, links};
  }

  /** @param {() => Promise<any>} act @param {string} message */
  async attempt(act, message) {
    try {
      await act();
      notify("good", message);
      this.dispatchEvent(new CustomEvent("changed"));
      await this.loader.run();
    } catch (/** @type {any} */ error) {
      notify("bad", error.errors?.[0]?.message || error.message);
    }
  }

  assign() {
    return this.attempt(() => this.assigned.length ? call("PUT", `${this.path}/context`, {body: {contexts: this.assigned, inherit: this.inherit}}) : call("DELETE", `${this.path}/context`), t("Saved. It is in use from the next request on."));
  }

  /** @param {SubmitEvent} event @param {any} loaded */
  saveDetails(event, loaded) {
    event.preventDefault();
    const form = Object.fromEntries(new FormData(/** @type {HTMLFormElement} */ (event.target)));
    const list = (/** @type {FormDataEntryValue} */ text) => String(text).split(/[\n,]/).map((part) => part.trim()).filter(Boolean);
    const body = {...loaded.node, title: form.title, type: form.type, body: form.body, links: list(form.links), readers: list(form.readers)};
    return this.attempt(() => call("PUT", this.path, {body, etag: loaded.etag}), t("Saved."));
  }

  /** @param {any} node */
  async deleteObject(node) {
    if (!(await confirmAction(t("Delete {name}?", {name: node.title || node.path}), node.children ? t("Everything below it is deleted, too.") : t("Its versions stay: a rollback can restore it."), {label: t("Delete"), danger: true}))) return;
    await this.attempt(async () => {
      await call("DELETE", this.path, {query: {recursive: node.children ? true : undefined}});
      navigate("/content", {replace: true});
    }, t("Deleted."));
  }

  render() {
    return html`<section class="card padded stack">${this.loader.render((loaded) => this.renderNode(loaded))}</section>`;
  }

  /** @param {any} loaded */
  renderNode(loaded) {
    const {node} = loaded;
    const readOnly = node.source === "file";
    return html`<header class="row apart"><div class="grow"><div class="row"><h2>${node.title || node.key}</h2><span class="badge">${node.type || t("node")}</span>${sourceBadge(node)}</div><code class="muted">${node.path}</code></div>
        <div class="actions"><a class="button small" href=${at(`/playground?content=${encode(node.path)}`)}>${icon("message-square-text")}${t("Chat")}</a>
          <button class="button small" @click=${() => this.dispatchEvent(new CustomEvent("add", {detail: node.path}))}>${icon("plus")}${t("Add below")}</button>
          ${readOnly ? nothing : html`${releaseButton("content", node, () => this.loader.run())}<button class="button small danger" @click=${() => this.deleteObject(node)}>${icon("trash")}${t("Delete")}</button>`}</div></header>
      ${readOnly ? renderFileNotice("content", {...node, alias: node.id}, () => this.loader.run()) : nothing}
      ${tabList([["contexts", t("Contexts")], ["details", t("Details")], ["links", html`${t("Links")}<span class="count">${loaded.links.links.length + loaded.links.backlinks.length}</span>`], ["versions", t("Versions")]], this.tab, (id) => { this.tab = id; }, t("Parts of the node"))}
      <div role="tabpanel" aria-labelledby="tab-${this.tab}">${this.tab === "contexts" ? this.renderContexts(loaded, readOnly) : this.tab === "details" ? this.renderDetails(loaded, readOnly)
        : this.tab === "links" ? renderLinks(loaded.links) : renderVersions("content", {...node, alias: node.id}, () => this.loader.run())}</div>`;
  }

  /** @param {any} loaded @param {boolean} readOnly */
  renderContexts({contexts}, readOnly) {
    const changed = JSON.stringify([this.assigned, this.inherit]) !== JSON.stringify([contexts.assigned, contexts.inherit]);
    return html`<div class="split even"><div class="stack"><context-picker .value=${this.assigned} .disabled=${readOnly} .label=${t("Assigned here")} @change=${(/** @type {CustomEvent} */ event) => { if (Array.isArray(event.detail)) this.assigned = event.detail; }}></context-picker>
        <div class="field"><label for="inherit">${t("What it inherits")}</label><select id="inherit" ?disabled=${readOnly} @change=${(/** @type {any} */ event) => { this.inherit = event.target.value; }}>
          <option value="nearest" ?selected=${this.inherit === "nearest"}>${t("Nothing, if contexts are assigned here")}</option><option value="merge" ?selected=${this.inherit === "merge"}>${t("Add the contexts of its ancestors")}</option></select></div>
        ${changed ? html`<div><button class="button primary" @click=${this.assign}>${icon("save")}${t("Save assignment")}</button></div>` : nothing}</div>
      <div class="stack tight"><h3>${t("In effect")}</h3>${contexts.effective.length ? html`<ol class="picked">${contexts.effective.map((/** @type {any} */ one) => html`<li>${icon("layers")}<a class="grow truncate" href=${at(`/contexts/${encode(one.context)}`)}>${one.name || one.context}</a>
        ${one.inherited ? html`<span class="badge outline">${t("from {name}", {name: one.entity})}</span>` : html`<span class="badge good">${one.level === "global" ? t("global default") : t("here")}</span>`}</li>`)}</ol>` : html`<p class="muted">${t("None.")}</p>`}
        <p class="hint">${t("What a request about this node gets from the tree. Agents, profiles and prompts add theirs.")}</p></div></div>`;
  }

  /** @param {any} loaded @param {boolean} readOnly */
  renderDetails(loaded, readOnly) {
    const {node} = loaded;
    return html`<form class="stack" @submit=${(/** @type {SubmitEvent} */ event) => this.saveDetails(event, loaded)}>
      <div class="grid-2"><div class="field"><label for="title">${t("Title")}</label><input id="title" name="title" ?disabled=${readOnly} .value=${node.title || ""}></div><div class="field"><label for="type">${t("Type")}</label><input id="type" name="type" ?disabled=${readOnly} .value=${node.type || ""}></div></div>
      <div class="field"><label for="body">${t("Text")}</label><textarea id="body" name="body" class="tall" ?disabled=${readOnly} .value=${node.body || ""}></textarea></div>
      <div class="grid-2"><div class="field"><label for="links">${t("Links to")}</label><textarea id="links" name="links" ?disabled=${readOnly} .value=${(node.links || []).map((/** @type {any} */ link) => (typeof link === "string" ? link : link.to || link.node || link.id)).join("\n")}></textarea><span class="hint">${t("Ids or paths, one per line.")}</span></div>
        <div class="field"><label for="readers">${t("Readers")}</label><textarea id="readers" name="readers" ?disabled=${readOnly} .value=${(node.readers || []).join("\n")}></textarea><span class="hint">${t("Empty: everybody. Otherwise users and groups, such as group:legal.")}</span></div></div>
      ${readOnly ? nothing : html`<div><button class="button primary">${icon("save")}${t("Save")}</button></div>`}</form>`;
  }
}
customElements.define("content-node", ContentNode);

/** @param {any} links */
function renderLinks({links, backlinks}) {
  const list = (/** @type {string} */ title, /** @type {any[]} */ items) => html`<div class="stack tight"><h3>${title}</h3>${items.length ? html`<ul class="line-list">${items.map((one) => html`<li>${icon("link")}<a class="grow truncate" href=${at(hrefOfNode(one.id))}>${one.title || one.path || one.id}</a>${one.type ? html`<span class="badge">${one.type}</span>` : nothing}</li>`)}</ul>` : html`<p class="muted">${t("None.")}</p>`}</div>`;
  return html`<div class="split even">${list(t("It links to"), links)}${list(t("Linked from"), backlinks)}</div>`;
}
