/**
 * `<plugin-editor>`: the editor that a resource type brings along, loaded when it is first needed; whatever goes wrong with
 * it, the form made from the type's JSON Schema takes its place. Sends `change` with the new data as `detail`.
 */
import {html} from "../../../vendor/lit.js";
import {getLanguage, t} from "../../../lib/i18n.js";
import {ConsoleElement} from "../../../ui/element.js";
import {noticeBox, renderLoading} from "../../../ui/parts.js";
import "../../../ui/schema-form.js";

/** @typedef {HTMLElement & {data: any, disabled: boolean, faults: Record<string, string>, schema: any, language: string}} EditorElement */

export class PluginEditor extends ConsoleElement {
  static properties = {type: {attribute: false}, data: {attribute: false}, disabled: {type: Boolean}, faults: {attribute: false}, failure: {state: true}, editor: {state: true}};

  constructor() {
    super();
    /** @type {any} */
    this.type = null;
    /** @type {any} */
    this.data = {};
    this.disabled = false;
    /** @type {Record<string, string>} */
    this.faults = {};
    this.address = this.failure = "";
    /** @type {EditorElement | null} */
    this.editor = null;
  }

  /** @param {Map<string, unknown>} changed */
  willUpdate(changed) {
    if (this.type.editor !== this.address) this.load(this.type);
    if (this.editor && !changed.has("editor")) this.hand(this.editor);
  }

  /** @param {any} type */
  async load(type) {
    this.address = type.editor;
    this.editor = null;
    this.failure = "";
    try {
      const editor = await createEditor(type);
      if (type.editor !== this.address) return;
      editor.addEventListener("change", (event) => this.receive(/** @type {CustomEvent} */ (event), editor));
      this.hand(editor);
      this.editor = editor;
    } catch (/** @type {any} */ error) {
      if (type.editor === this.address) this.failure = String(error?.message || error);
    }
  }

  /** It works on a copy, so that only what it sends becomes part of the working copy. @param {EditorElement} editor */
  hand(editor) {
    try {
      Object.assign(editor, {schema: this.type.data, language: getLanguage(), disabled: this.disabled, faults: this.faults, data: structuredClone(this.data)});
    } catch (/** @type {any} */ error) {
      this.editor = null;
      this.failure = String(error?.message || error);
    }
  }

  /** Events of the fields inside bubble up to here, too. @param {CustomEvent} event @param {EditorElement} editor */
  receive(event, editor) {
    event.stopPropagation();
    if (event.target === editor && !this.disabled) this.send(event.detail);
  }

  /** @param {any} data */
  send(data) {
    if (typeof data === "object" && data !== null && !Array.isArray(data)) this.dispatchEvent(new CustomEvent("change", {detail: structuredClone(data)}));
  }

  render() {
    if (this.editor) return this.editor;
    if (!this.failure) return renderLoading();
    return html`<div class="stack">${noticeBox("warn", html`<strong>${t("The editor of this type could not be loaded.")}</strong> ${t("This general form does the same.")} <code>${this.failure}</code>`)}
      <schema-form .schema=${this.type.data} .value=${this.data} .faults=${this.faults} ?disabled=${this.disabled} prefix="data"
        @change=${(/** @type {CustomEvent} */ event) => { event.stopPropagation(); this.send(event.detail); }}></schema-form></div>`;
  }
}
customElements.define("plugin-editor", PluginEditor);

/** @param {any} type @returns {Promise<EditorElement>} */
async function createEditor(type) {
  const address = new URL(type.editor, location.origin);
  if (address.origin !== location.origin) throw new Error(`${address.origin}?`);
  const {default: Editor} = await import(address.href);
  if (!(Editor?.prototype instanceof HTMLElement)) throw new TypeError(`${address.pathname}: the default export is not an element`);
  if (!customElements.getName(Editor)) customElements.define(`editor-of-${type.alias}`, Editor);
  return new Editor();
}
