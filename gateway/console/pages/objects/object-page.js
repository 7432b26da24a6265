/** The base of the pages for agents, profiles and prompts: a list, and an editor with drafts, versions and a preview. */
import {html, nothing} from "../../vendor/lit.js";
import {call, encode, get} from "../../lib/api.js";
import {formatAge} from "../../lib/format.js";
import {t} from "../../lib/i18n.js";
import {at, navigate} from "../../lib/router.js";
import {notify} from "../../lib/state.js";
import {confirmAction} from "../../ui/dialog.js";
import {ConsoleElement, Loader, debounce} from "../../ui/element.js";
import {icon} from "../../ui/icon.js";
import {askForName} from "../../ui/name-dialog.js";
import {releaseButton, renderFileNotice} from "../../ui/ownership.js";
import {emptyState, focusFirstFault, pageHead, searchField, sourceBadge, tabList} from "../../ui/parts.js";
import {renderVersions} from "../../ui/versions.js";
import {WorkingCopy} from "../../ui/working-copy.js";
import "../../ui/virtual-list.js";

/**
 * @typedef {{kind: string, title: string, lead: string, image: string, create: string, hint: string, columns: import("../../ui/virtual-list.js").Column[], start?: any}} ObjectKind
 */

export class ObjectPage extends ConsoleElement {
  static properties = {alias: {}, filter: {state: true}, tab: {state: true}};

  /** @param {string} kind */
  constructor(kind) {
    super();
    this.kind = kind;
    this.alias = "";
    this.filter = "";
    this.tab = "settings";
    this.copy = new WorkingCopy(this, kind, () => focusFirstFault(this));
    this.loader = new Loader(this, () => this.copy.load().then(() => true));
    this.search = debounce((/** @type {string} */ text) => { this.filter = text; this.fetchPage = this.makeFetch(); this.requestUpdate(); });
    this.fetchPage = this.makeFetch();
  }

  /** @returns {ObjectKind} */
  describe() {
    throw new Error("not described");
  }

  /** The fields of one object. @param {any} _work @param {(change: any) => void} _edit @returns {unknown} */
  renderForm(_work, _edit) {
    return nothing;
  }

  /** Further tabs of an object. @returns {[string, unknown, () => unknown][]} */
  listTabs() {
    return [];
  }

  /** @param {Map<string, unknown>} changed */
  willUpdate(changed) {
    if (!changed.has("alias")) return;
    this.copy.reset(this.alias);
    this.tab = "settings";
    if (this.alias) this.loader.run();
    else this.fetchPage = this.makeFetch();
  }

  makeFetch() {
    const filter = this.filter;
    return (/** @type {number} */ skip, /** @type {number} */ take) => get(this.kind, {skip, take, filter});
  }

  /** @param {string} pointer */
  fault(pointer) {
    const message = this.copy.faults[pointer];
    return message ? html`<span class="fault">${icon("circle-alert")} ${message}</span>` : nothing;
  }

  async create() {
    const {create, hint, start = {}} = this.describe();
    const chosen = await askForName(create, hint);
    if (!chosen) return;
    try {
      await call("POST", this.kind, {body: {...start, ...chosen}});
      navigate(`/${this.kind}/${encode(chosen.alias)}`);
    } catch (/** @type {any} */ error) {
      notify("bad", error.message);
    }
  }

  async deleteObject() {
    const {work, path, etag} = this.copy;
    if (!(await confirmAction(t("Delete {name}?", {name: work.name || this.alias}), t("Its versions stay: a rollback can restore it."), {label: t("Delete"), danger: true}))) return;
    await this.copy.attempt(async () => {
      await call("DELETE", path, {etag});
      notify("good", t("Deleted."));
      navigate(`/${this.kind}`, {force: true});
    });
  }

  render() {
    if (!this.alias) return this.renderList();
    return html`<div class="page">${this.loader.error || !this.copy.work ? this.loader.render(() => nothing) : this.renderObject()}</div>`;
  }

  renderList() {
    const about = this.describe();
    /** @type {import("../../ui/virtual-list.js").Column[]} */
    const columns = [
      {title: t("Name"), width: "minmax(0, 1.4fr)", cell: (one) => html`${one.name || one.alias}<span class="sub">${one.alias}</span>`}, ...about.columns,
      {title: t("State"), width: "130px", cell: (one) => html`<span class="row tight-row">${one.draft ? html`<span class="badge warn">${t("Draft")}</span>` : nothing}${sourceBadge(one)}${one.source === "store" && !one.draft ? html`<span class="muted">${formatAge(one.updated_at)}</span>` : nothing}</span>`},
    ];
    return html`<div class="page">${pageHead(about.title, {lead: about.lead, actions: html`<button class="button primary" @click=${this.create}>${icon("plus")}${about.create}</button>`})}
      <div class="toolbar">${searchField(t("Filter"), this.filter, this.search)}</div>
      <virtual-list .label=${about.title} .fetchPage=${this.fetchPage} .rowHeight=${60} .href=${(/** @type {any} */ one) => at(`/${this.kind}/${encode(one.alias)}`)} .columns=${columns}
        .empty=${html`<div class="card">${emptyState(about.image, this.filter ? t("Nothing matches.") : t("None yet"), this.filter ? nothing : about.lead)}</div>`}></virtual-list></div>`;
  }

  renderObject() {
    const {copy} = this;
    const {work} = copy;
    const about = this.describe();
    const tabs = this.listTabs();
    return html`${pageHead(work.name || this.alias, {
        crumbs: [[about.title, `/${this.kind}`]],
        badges: html`${copy.editingDraft ? html`<span class="badge warn">${t("Draft")}</span>` : nothing}${sourceBadge(work)}`,
        lead: html`<code>${this.alias}</code>${work.updated_at ? html` · ${t("changed {age} by {name}", {age: formatAge(work.updated_at), name: work.updated_by})}` : nothing}`,
        actions: copy.readOnly ? nothing : html`${releaseButton(this.kind, work, () => copy.changed())}<button class="button danger" @click=${this.deleteObject}>${icon("trash")}${t("Delete")}</button>`,
      })}
      ${copy.readOnly ? renderFileNotice(this.kind, work, () => copy.changed()) : nothing}${copy.renderDraftNotice()}
      ${tabList([["settings", t("Settings")], ...tabs.map(([id, name]) => /** @type {[string, unknown]} */ ([id, name])), ["versions", t("Versions")]], this.tab, (id) => { this.tab = id; }, t("Parts"))}
      <div role="tabpanel" aria-labelledby="tab-${this.tab}">${this.tab === "versions" ? renderVersions(this.kind, work, () => copy.changed())
        : this.tab === "settings" ? this.renderForm(work, (change) => copy.edit(change)) : tabs.find(([id]) => id === this.tab)?.[2]()}</div>
      ${copy.renderSaveBar()}`;
  }
}
