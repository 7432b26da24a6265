/** Forms by resource type: ours, the one that a type brings along, or one made from its JSON Schema. */
import {html} from "../../../vendor/lit.js";
import "../../../ui/schema-form.js";
import {renderBrandVoice} from "./brand-voice.js";
import {renderDocument} from "./document.js";
import {renderGlossary} from "./glossary.js";
import {renderLink} from "./link.js";
import "./plugin-editor.js";
import {renderText} from "./text.js";

/**
 * @typedef {{data: any, change: (data: any) => void, disabled: boolean, faults: Record<string, string>, type: any, resource: any, context: string, saved: any}} FormProps
 * @type {Record<string, (props: FormProps) => unknown>}
 */
const FORMS = {"brand-voice": renderBrandVoice, text: renderText, glossary: renderGlossary, document: renderDocument, "external-link": renderLink};

/** What a new resource of a type begins with. @type {Record<string, () => any>} */
export const START_DATA = {
  text: () => ({content: ""}), glossary: () => ({terms: []}), "external-link": () => ({url: "https://"}), retriever: () => ({url: "https://"}), "brand-voice": () => ({}), document: () => ({content: ""}),
};

/** @param {FormProps} props */
export function renderDataForm(props) {
  const form = FORMS[props.type?.alias];
  const receive = (/** @type {CustomEvent} */ event) => { event.stopPropagation(); props.change(event.detail); };
  if (props.type?.editor) return html`<plugin-editor .type=${props.type} .data=${props.data} .faults=${props.faults} ?disabled=${props.disabled} @change=${receive}></plugin-editor>`;
  if (form) return form(props);
  return html`<schema-form .schema=${props.type?.data || {}} .value=${props.data} .faults=${props.faults} ?disabled=${props.disabled} prefix="data"
    @change=${receive}></schema-form>`;
}
