/** One context: its resources in order, its settings, where it is used, its versions. One working copy, one Save. */
import {html, nothing} from "../../vendor/lit.js";
import {call, encode, get} from "../../lib/api.js";
import {formatAge} from "../../lib/format.js";
import {t} from "../../lib/i18n.js";
import {navigate} from "../../lib/router.js";
import {notify} from "../../lib/state.js";
import {confirmAction} from "../../ui/dialog.js";
import {ConsoleElement, Loader} from "../../ui/element.js";
import {icon} from "../../ui/icon.js";
import {renderFileNotice, releaseButton} from "../../ui/ownership.js";
import {focusFirstFault, pageHead, sourceBadge, tabList} from "../../ui/parts.js";
import {renderVersions} from "../../ui/versions.js";
import {WorkingCopy} from "../../ui/working-copy.js";
import "./resource-editor.js";
import "./resource-list.js";
import {renderSettings} from "./settings.js";
import {renderUseList} from "./uses.js";

export class ContextEditor extends ConsoleElement {
  static properties = {alias: {}, resource: {}, tab: {state: true}};

  constructor() {
    super();
    this.alias = "";
    this.resource = "";
    this.tab = "resources";
    this.copy = new WorkingCopy(this, "contexts", (faults) => this.openFaulty(faults));
    this.loader = new Loader(this, () => this.load());
  }

  /** @param {Map<string, unknown>} changed */
  willUpdate(changed) {
    if (!changed.has("alias") || !this.alias) return;
    this.copy.reset(this.alias);
    this.loader.run();
  }

  get work() {
    return this.copy.work;
  }

  get readOnly() {
    return this.copy.readOnly;
  }

  async load() {
    const [types, uses] = await Promise.all([
      get("resource-types", {take: 1000}), get(`${this.copy.path}/usage`, {take: 1000}).catch(() => ({items: []})), this.copy.load(),
    ]);
    return {types: types.items, uses: uses.items};
  }

  /** Shows the resource that has the first fault. @param {Record<string, string>} faults */
  openFaulty(faults) {
    const index = Object.keys(faults).map((pointer) => pointer.match(/^\/resources\/(\d+)/)?.[1]).find((found) => found !== undefined);
    const resource = this.work.resources[Number(index)];
    if (index !== undefined && resource) navigate(`/contexts/${encode(this.alias)}/${encode(resource.id)}`, {replace: true});
    focusFirstFault(this);
  }

  async makeDefault() {
    await this.copy.attempt(async () => {
      await call("PUT", `${this.copy.path}/set-global`);
      notify("good", t("This is the global default now."));
      this.copy.changed();
    });
  }

  async deleteObject() {
    if (!(await confirmAction(t("Delete {name}?", {name: this.work.name || this.alias}), t("Its versions stay: a rollback can restore it."), {label: t("Delete"), danger: true}))) return;
    await this.copy.attempt(async () => {
      await call("DELETE", this.copy.path, {etag: this.copy.etag});
      notify("good", t("Deleted."));
      navigate("/contexts", {force: true});
    });
  }

  /** @param {number} index @param {any} resource */
  changeResource(index, resource) {
    this.copy.edit({resources: this.work.resources.with(index, resource)});
  }

  render() {
    return html`<div class="page">${this.loader.error || !this.work ? this.loader.render(() => nothing) : this.renderLoaded(this.loader.data || {types: [], uses: []})}</div>`;
  }

  /** @param {any} loaded */
  renderLoaded(loaded) {
    const index = this.resource ? this.work.resources.findIndex((/** @type {any} */ one) => one.id === this.resource) : -1;
    return html`${index >= 0 ? this.renderResource(index, loaded.types) : this.renderContext(loaded)}${this.copy.renderSaveBar()}`;
  }

  /** @param {number} index @param {any[]} types */
  renderResource(index, types) {
    const resource = this.work.resources[index];
    return html`<resource-editor .context=${this.alias} .resource=${resource} .saved=${this.copy.base.resources.find((/** @type {any} */ one) => one.id === resource.id)}
      .type=${types.find((type) => type.alias === resource.type)} .contextName=${this.work.name || this.alias}
      .disabled=${this.readOnly} .faults=${cutPointers(this.copy.faults, `/resources/${index}`)}
      @change=${(/** @type {CustomEvent} */ event) => event.target === event.currentTarget && this.changeResource(index, event.detail)}></resource-editor>`;
  }

  /** @param {any} loaded */
  renderContext(loaded) {
    return html`${pageHead(this.work.name || this.alias, {
      crumbs: [[t("Contexts"), "/contexts"]],
      badges: html`${this.work.default ? html`<span class="badge accent">${icon("star")}${t("Default")}</span>` : nothing}
        ${this.copy.editingDraft ? html`<span class="badge warn">${t("Draft")}</span>` : nothing}${sourceBadge(this.work)}`,
      lead: html`<code>${this.alias}</code>${this.work.updated_at ? html` · ${t("changed {age} by {name}", {age: formatAge(this.work.updated_at), name: this.work.updated_by})}` : nothing}`,
      actions: html`${this.readOnly ? nothing : html`${this.work.default ? nothing : html`<button class="button" @click=${this.makeDefault}>${icon("star")}${t("Make default")}</button>`}
        ${releaseButton("contexts", this.work, () => this.loader.run())}
        <button class="button danger" @click=${this.deleteObject}>${icon("trash")}${t("Delete")}</button>`}`,
    })}
    ${this.readOnly ? renderFileNotice("contexts", this.work, () => this.loader.run()) : nothing}
    ${this.copy.renderDraftNotice()}
    ${tabList([
      ["resources", html`${t("Resources")}<span class="count">${this.work.resources.length}</span>`], ["settings", t("Settings")],
      ["uses", html`${t("Used by")}<span class="count">${loaded.uses.length}</span>`], ["versions", t("Versions")],
    ], this.tab, (id) => { this.tab = id; }, t("Parts of the context"))}
    <div role="tabpanel" aria-labelledby="tab-${this.tab}">${this.renderTab(loaded)}</div>`;
  }

  /** @param {any} loaded */
  renderTab(loaded) {
    if (this.tab === "settings") return renderSettings(this.work, (change) => this.copy.edit(change), this.readOnly, this.copy.faults);
    if (this.tab === "uses") return html`<section class="card padded">${renderUseList(loaded.uses)}</section>`;
    if (this.tab === "versions") return renderVersions("contexts", this.work, () => this.loader.run());
    return html`<resource-list .context=${this.alias} .resources=${this.work.resources} .types=${loaded.types} .disabled=${this.readOnly}
      @change=${(/** @type {CustomEvent} */ event) => this.copy.edit({resources: event.detail})}></resource-list>`;
  }
}
customElements.define("context-editor", ContextEditor);

/** Faults below a pointer, by the rest of theirs. @param {Record<string, string>} faults @param {string} prefix */
function cutPointers(faults, prefix) {
  const below = Object.entries(faults).filter(([pointer]) => pointer.startsWith(`${prefix}/`));
  return Object.fromEntries(below.map(([pointer, message]) => [pointer.slice(prefix.length), message]));
}
