/** All policies as one file: out, and in again with a preview of what would change. */
import {html, nothing} from "../../vendor/lit.js";
import {call} from "../../lib/api.js";
import {t} from "../../lib/i18n.js";
import {allows, notify} from "../../lib/state.js";
import {renderChanges} from "../../ui/diff-view.js";
import {ConsoleElement} from "../../ui/element.js";
import {icon} from "../../ui/icon.js";
import {noticeBox, pageHead} from "../../ui/parts.js";

export class BundlesPage extends ConsoleElement {
  static properties = {bundle: {state: true}, preview: {state: true}, mode: {state: true}, faults: {state: true}, busy: {state: true}};

  constructor() {
    super();
    /** @type {{name: string, text: string, type: string} | null} */
    this.bundle = null;
    /** @type {any} */
    this.preview = null;
    this.mode = "merge";
    /** @type {any[]} */
    this.faults = [];
    this.busy = false;
  }

  /** @param {string} format @param {string} source */
  async download(format, source) {
    try {
      const {data} = await call("GET", "export", {query: {format, source: source || undefined}});
      const text = typeof data === "string" ? data : JSON.stringify(data, null, 2);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text]));
      link.download = `context-gateway.${format}`;
      link.click();
      URL.revokeObjectURL(link.href);
    } catch (/** @type {any} */ error) {
      notify("bad", error.message);
    }
  }

  /** @param {File | undefined} file */
  async read(file) {
    if (!file) return;
    this.bundle = {name: file.name, text: await file.text(), type: file.name.endsWith(".json") ? "application/json" : "application/yaml"};
    await this.send(true);
  }

  /** @param {boolean} dry */
  async send(dry) {
    if (!this.bundle) return;
    this.busy = true;
    this.faults = [];
    try {
      const {data} = await call("POST", "import", {query: {dry_run: dry, mode: this.mode}, type: this.bundle.type, body: this.bundle.text});
      this.preview = dry ? data : null;
      if (!dry) {
        notify("good", t("Imported."));
        this.bundle = null;
      }
    } catch (/** @type {any} */ error) {
      this.preview = null;
      this.faults = error.errors?.length ? error.errors : [{message: error.message}];
    }
    this.busy = false;
  }

  render() {
    return html`<div class="page">${pageHead(t("Import and export"), {lead: t("All contexts, agents, profiles, prompts and content as one file. Imported elsewhere, it yields the same requests.")})}
      <div class="split even"><section class="card"><div class="card-head"><h2>${t("Export")}</h2></div><div class="card-body stack"><p class="soft">${t("Keys, drafts and former versions are not part of it.")}</p>
          <div class="row"><button class="button" @click=${() => this.download("yaml", "")}>${icon("download")}${t("Everything as YAML")}</button><button class="button" @click=${() => this.download("json", "")}>${icon("download")}${t("As JSON")}</button><button class="button" @click=${() => this.download("yaml", "stored")}>${icon("download")}${t("Only what is stored")}</button></div></div></section>
        <section class="card"><div class="card-head"><h2>${t("Import")}</h2></div><div class="card-body stack">
          <div class="drop" @dragover=${(/** @type {DragEvent} */ event) => event.preventDefault()} @drop=${(/** @type {DragEvent} */ event) => { event.preventDefault(); this.read(event.dataTransfer?.files[0]); }}>${icon("upload")}<span>${this.bundle ? this.bundle.name : t("Drop a bundle here")}</span>
            <label class="button small" for="bundle-file">${t("Choose a file")}</label><input id="bundle-file" class="visually-hidden" type="file" accept=".yaml,.yml,.json" @change=${(/** @type {any} */ event) => this.read(event.target.files[0])}></div>
          <div class="field"><label for="import-mode">${t("Stored objects that are not in the file")}</label><select id="import-mode" @change=${(/** @type {any} */ event) => { this.mode = event.target.value; this.send(true); }}><option value="merge">${t("Keep them")}</option><option value="replace">${t("Delete them")}</option></select></div></div></section></div>
      <div aria-live="polite">${this.faults.length ? noticeBox("bad", html`<strong>${t("This cannot be imported; nothing was changed.")}</strong><ul>${this.faults.map((fault) => html`<li>${fault.pointer ? html`<code>${fault.pointer}</code> ` : nothing}${fault.message}</li>`)}</ul>`) : nothing}
        ${this.preview ? this.renderPreview(this.preview) : nothing}</div></div>`;
  }

  /** @param {any} preview */
  renderPreview(preview) {
    const kinds = /** @type {Record<string, string>} */ ({create: "good", update: "warn", delete: "bad", unchanged: ""});
    const names = /** @type {Record<string, string>} */ ({create: t("new"), update: t("changed"), delete: t("deleted"), unchanged: t("unchanged")});
    const changed = preview.items.filter((/** @type {any} */ item) => item.action !== "unchanged");
    const count = (/** @type {string} */ action) => preview.items.filter((/** @type {any} */ item) => item.action === action).length;
    return html`<section class="card"><div class="card-head"><h2>${t("What would change")}</h2><span class="row">${["create", "update", "delete", "unchanged"].map((action) => count(action) ? html`<span class="badge ${kinds[action]}">${count(action)} ${names[action]}</span>` : nothing)}</span></div>
      <div class="card-body stack">${changed.length ? changed.map((/** @type {any} */ item) => html`<details class="diff-change"><summary class="row"><span class="badge ${kinds[item.action]}">${names[item.action]}</span><strong>${item.kind}/${item.alias}</strong></summary><div class="card-body">${renderChanges(item.changes || [])}</div></details>`) : html`<p class="muted">${t("Nothing: everything is there already.")}</p>`}
        ${changed.length && allows("editor") ? html`<div><button class="button primary" ?disabled=${this.busy} @click=${() => this.send(false)}>${icon("check")}${t("Import {n} change|Import {n} changes", {n: changed.length})}</button></div>` : nothing}</div></section>`;
  }
}
customElements.define("bundles-page", BundlesPage);
