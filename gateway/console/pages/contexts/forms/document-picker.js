/** `<document-picker>`: upload a file by drag and drop, pick a stored one, or write the text here. */
import {html, nothing} from "../../../vendor/lit.js";
import {call, get, getAll} from "../../../lib/api.js";
import {formatAge, formatBytes, formatNumber} from "../../../lib/format.js";
import {t} from "../../../lib/i18n.js";
import {showDialog} from "../../../ui/dialog.js";
import {ConsoleElement} from "../../../ui/element.js";
import {icon} from "../../../ui/icon.js";
import {emptyState} from "../../../ui/parts.js";
import {textArea} from "./field.js";

const TYPES = /** @type {Record<string, string>} */ ({
  txt: "text/plain", md: "text/markdown", markdown: "text/markdown", html: "text/html", htm: "text/html", pdf: "application/pdf",
  docx: "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
});

export class DocumentPicker extends ConsoleElement {
  static properties = {data: {attribute: false}, disabled: {type: Boolean}, faults: {attribute: false}, file: {state: true}, over: {state: true}, busy: {state: true}, error: {state: true}};

  constructor() {
    super();
    /** @type {any} */
    this.data = {};
    this.disabled = false;
    /** @type {Record<string, string>} */
    this.faults = {};
    /** @type {any} the stored document */
    this.file = null;
    this.over = false;
    this.busy = false;
    this.error = "";
  }

  /** @param {Map<string, unknown>} changed */
  willUpdate(changed) {
    if (changed.has("data") && this.data.sha256 && this.file?.sha256 !== this.data.sha256) this.loadFile(this.data.sha256);
  }

  /** @param {string} sha256 */
  async loadFile(sha256) {
    this.file = await get(`documents/${sha256}`).catch(() => null);
  }

  /** @param {any} data */
  send(data) {
    this.dispatchEvent(new CustomEvent("change", {detail: data}));
  }

  /** @param {any} file */
  use(file) {
    this.file = file;
    this.send({sha256: file.sha256});
  }

  /** @param {File | undefined} file */
  async upload(file) {
    if (!file) return;
    const type = TYPES[file.name.split(".").pop()?.toLowerCase() || ""] || file.type;
    this.busy = true;
    this.error = "";
    try {
      const {data} = await call("POST", "documents", {query: {name: file.name}, type, body: file});
      this.use(data);
    } catch (/** @type {any} */ error) {
      this.error = error.message;
    }
    this.busy = false;
  }

  async pick() {
    const stored = await getAll("documents");
    const chosen = await showDialog({
      heading: t("Stored documents"),
      body: (close) => stored.length ? html`<div class="type-grid">${stored.map((one) => html`<button class="type-choice" @click=${() => close(one)}><span class="type-icon">${icon("file-text")}</span>
        <span><strong>${one.name}</strong><span class="sub">${formatBytes(one.size)} · ${one.created_at ? formatAge(one.created_at) : one.file || ""}</span></span></button>`)}</div>` : emptyState("inbox", t("No documents are stored yet.")),
    });
    if (chosen) this.use(chosen);
  }

  async showText() {
    const text = (await call("GET", `documents/${this.data.sha256}/content`)).data;
    await showDialog({heading: t("What was extracted"), wide: true, body: () => html`<pre class="code" tabindex="0">${text}</pre>`});
  }

  render() {
    if (this.data.path) return html`<div class="file-card"><span class="type-icon">${icon("file-text")}</span><span class="grow"><strong>${this.data.path}</strong><span class="sub">${t("A file beside the policy file")}</span></span></div>`;
    return html`<div class="stack">${this.data.sha256 ? this.renderFile() : nothing}
      ${this.disabled ? nothing : this.renderDrop()}
      ${this.error ? html`<span class="fault" role="alert">${icon("circle-alert")} ${this.error}</span>` : nothing}
      ${this.faults[""] || this.faults["/sha256"] ? html`<span class="fault">${this.faults[""] || this.faults["/sha256"]}</span>` : nothing}
      ${this.data.sha256 ? nothing : textArea({
        id: "document-content", label: t("Or write the text here"), tall: true, disabled: this.disabled, value: this.data.content || "", fault: this.faults["/content"],
        change: (content) => this.send({...this.data, content}),
      })}</div>`;
  }

  renderFile() {
    const file = this.file;
    return html`<div class="file-card"><span class="type-icon">${icon("file-text")}</span>
      <span class="grow"><strong>${file?.name || this.data.sha256.slice(0, 12)}</strong>
        ${file ? html`<span class="sub">${formatBytes(file.size)} · ${t("{n} characters of text", {n: file.characters})} · ${file.created_at ? t("uploaded {age}", {age: formatAge(file.created_at)}) : file.file || ""}</span>` : nothing}</span>
      <button type="button" class="button small" @click=${this.showText}>${icon("eye")}${t("Show text")}</button></div>`;
  }

  renderDrop() {
    return html`<div class="drop ${this.over ? "over" : ""}" @dragover=${(/** @type {DragEvent} */ event) => { event.preventDefault(); this.over = true; }} @dragleave=${() => { this.over = false; }}
        @drop=${(/** @type {DragEvent} */ event) => { event.preventDefault(); this.over = false; this.upload(event.dataTransfer?.files[0]); }}>
      ${icon("upload")}<span>${this.busy ? t("Uploading…") : t("Drop a PDF, Word, HTML, Markdown or text file here")}</span>
      <span class="row"><label class="button small" for="document-file">${t("Choose a file")}</label>
        <input id="document-file" class="visually-hidden" type="file" accept=".txt,.md,.html,.htm,.pdf,.docx" @change=${(/** @type {any} */ event) => this.upload(event.target.files[0])}>
        <button type="button" class="button small" @click=${this.pick}>${t("Pick a stored one")}</button></span></div>`;
  }
}
customElements.define("document-picker", DocumentPicker);
