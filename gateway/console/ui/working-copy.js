/** An object being edited: loading, unsaved changes, saving with its ETag, drafts, conflicts. */
import {html, nothing} from "../vendor/lit.js";
import {call, encode} from "../lib/api.js";
import {formatAge} from "../lib/format.js";
import {t} from "../lib/i18n.js";
import {at, setGuard} from "../lib/router.js";
import {notify} from "../lib/state.js";
import {resolveConflict} from "./conflict.js";
import {confirmAction} from "./dialog.js";
import {icon} from "./icon.js";
import {noticeBox} from "./parts.js";

export class WorkingCopy {
  /**
   * @param {import("../vendor/lit.js").LitElement} host
   * @param {string} kind such as `contexts`
   * @param {(faults: Record<string, string>) => void} showFaults
   */
  constructor(host, kind, showFaults) {
    this.host = host;
    this.kind = kind;
    this.showFaults = showFaults;
    this.reset("");
    host.addController(this);
  }

  hostDisconnected() {
    setGuard(null);
  }

  /** @param {string} alias */
  reset(alias) {
    /** @type {string} */
    this.alias = alias;
    /** @type {any} what is being edited */
    this.work = null;
    /** @type {any} what that began with */
    this.base = null;
    /** @type {string | null} */
    this.etag = null;
    /** @type {any} */
    this.draft = null;
    /** @type {string | null} */
    this.draftTag = null;
    this.editingDraft = false;
    /** @type {Record<string, string>} message by pointer */
    this.faults = {};
    this.busy = false;
  }

  get path() {
    return `${this.kind}/${encode(this.alias)}`;
  }

  get dirty() {
    return this.work !== null && JSON.stringify(this.work) !== JSON.stringify(this.base);
  }

  get readOnly() {
    return this.work?.source === "file";
  }

  async load() {
    const {data, etag} = await call("GET", this.path);
    [this.draft, this.draftTag] = [null, null];
    if (data.draft) await this.readDraft().catch(() => {});
    this.editingDraft = false;
    this.accept(data, etag);
  }

  /** Loads it anew after a change that was not made here. */
  changed() {
    return this.load().then(() => this.host.requestUpdate(), (error) => notify("bad", error.message));
  }

  /** @param {any} object @param {string | null} etag */
  accept(object, etag) {
    this.base = object;
    this.work = structuredClone(object);
    this.etag = etag;
    this.faults = {};
    setGuard(null);
    this.host.requestUpdate();
  }

  /** @param {any} change */
  edit(change) {
    this.work = {...this.work, ...change};
    const ask = () => confirmAction(t("Leave without saving?"), t("Your changes would be lost."), {label: t("Leave"), danger: true});
    setGuard(this.dirty ? ask : null, `/${this.path}`);
    this.host.requestUpdate();
  }

  async save() {
    if (this.editingDraft) return this.saveDraft();
    await this.attempt(async () => {
      const {data, etag, headers} = await call("PUT", this.path, {body: cleanBody(this.work), etag: this.etag});
      this.accept(data, etag);
      const warning = headers.get("x-context-warning");
      notify(warning ? "info" : "good", warning || t("Saved. It is in use from the next request on."));
    });
  }

  async saveDraft() {
    await this.attempt(async () => {
      await this.putDraft();
      notify("good", t("Draft saved. It is not in use yet."));
      await this.openDraft();
    });
  }

  /** Stores the draft unless somebody else has changed or made one meanwhile. */
  async putDraft() {
    if (!this.draftTag && (await call("GET", this.path)).data.draft) throw new StaleDraft();
    await call("PUT", `${this.path}/draft`, {body: cleanBody(this.work), etag: this.draftTag}).catch((error) => { throw error.status === 412 ? new StaleDraft() : error; });
  }

  async readDraft() {
    const {data, etag} = await call("GET", `${this.path}/draft`);
    [this.draft, this.draftTag] = [data, etag];
  }

  async openDraft() {
    await this.readDraft();
    this.editingDraft = true;
    this.accept(this.draft, this.etag);
  }

  async publish() {
    await this.attempt(async () => {
      if (this.dirty) await this.putDraft();
      await call("POST", `${this.path}/publish`, {etag: this.etag});
      notify("good", t("Published. It is in use from the next request on."));
      await this.load();
    });
  }

  async discardDraft() {
    if (!(await confirmAction(t("Discard the draft?"), t("What is in use now stays as it is."), {label: t("Discard"), danger: true}))) return;
    await this.attempt(async () => {
      await call("DELETE", `${this.path}/draft`);
      await this.load();
    });
  }

  /** Runs a change; a stale one is settled with the person, faults go to their fields. @param {() => Promise<void>} act */
  async attempt(act) {
    this.busy = true;
    this.faults = {};
    this.host.requestUpdate();
    try {
      await act();
    } catch (/** @type {any} */ error) {
      if (error instanceof StaleDraft) await this.settleDraft(act);
      else if (error.status === 412) await this.settle(act);
      else this.report(error);
    }
    this.busy = false;
    this.host.requestUpdate();
  }

  /** @param {() => Promise<void>} act */
  async settle(act) {
    const theirs = await call("GET", this.path);
    const merged = await resolveConflict(this.base, this.work, theirs.data);
    if (!merged) return;
    [this.base, this.etag, this.work] = [theirs.data, theirs.etag, merged];
    await this.attempt(act);
  }

  /** @param {() => Promise<void>} act */
  async settleDraft(act) {
    const theirs = await call("GET", `${this.path}/draft`);
    const merged = await resolveConflict(this.base, this.work, theirs.data);
    if (!merged) return;
    [this.base, this.draft, this.draftTag, this.work, this.editingDraft] = [theirs.data, theirs.data, theirs.etag, merged, true];
    await this.attempt(act);
  }

  /** @param {any} error */
  report(error) {
    this.faults = Object.fromEntries((error.errors || []).map((/** @type {any} */ fault) => [fault.pointer || "", fault.message]));
    const count = Object.keys(this.faults).length;
    notify("bad", count ? t("{n} fault has to be fixed first.|{n} faults have to be fixed first.", {n: count}) : error.message);
    if (count) this.showFaults(this.faults);
  }

  renderDraftNotice() {
    if (!this.draft) return nothing;
    if (!this.editingDraft) return noticeBox("warn", t("There is a draft, changed {age} by {name}. It is not in use yet.", {age: formatAge(this.draft.updated_at), name: this.draft.updated_by || "?"}),
      html`<button class="button small" @click=${() => this.attempt(() => this.openDraft())}>${icon("pencil")}${t("Open the draft")}</button>`);
    return noticeBox("warn", t("You are editing the draft. Requests still get the published version."), html`<div class="actions">
      <a class="button small" href=${at(`/try?draft=${this.kind}/${encode(this.alias)}`)}>${icon("flask-conical")}${t("Try it")}</a>
      <button class="button small" @click=${() => this.discardDraft()}>${icon("trash")}${t("Discard")}</button>
      <button class="button small primary" ?disabled=${this.busy} @click=${() => this.publish()}>${icon("upload")}${t("Publish")}</button></div>`);
  }

  renderSaveBar() {
    if (!this.dirty || this.readOnly) return nothing;
    return html`<div class="save-bar" role="region" aria-label=${t("Unsaved changes")}><span class="grow">${t("Unsaved changes")}</span>
      <button class="button" @click=${() => this.accept(this.base, this.etag)}>${icon("undo-2")}${t("Revert")}</button>
      ${this.editingDraft ? nothing : html`<button class="button" ?disabled=${this.busy} @click=${() => this.saveDraft()}>${icon("file-clock")}${t("Save as draft")}</button>`}
      <button class="button primary" ?disabled=${this.busy} @click=${() => this.save()}>${icon("save")}${this.editingDraft ? t("Save draft") : t("Save")}</button></div>`;
  }
}

/** Somebody else has made or changed the draft. */
class StaleDraft extends Error {}

/** Without what only replies have, and without empty lines of sample questions. @param {any} work */
function cleanBody(work) {
  if (!work.resources) return work;
  return {...work, resources: work.resources.map(cleanResource)};
}

/** @param {any} resource */
export function cleanResource(resource) {
  const {ref: _, link: __, ...body} = resource;
  return {...body, examples: (body.examples || []).filter((/** @type {string} */ one) => one.trim())};
}
