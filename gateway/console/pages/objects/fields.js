/** Fields that agents, profiles and prompts share. */
import {html, nothing} from "../../vendor/lit.js";
import {t} from "../../lib/i18n.js";
import "../../ui/context-picker.js";

/**
 * @typedef {{work: any, edit: (change: any) => void, disabled: boolean, faults: Record<string, string>}} FormProps
 */

/** @param {FormProps} props @param {string} name @param {string} label @param {{hint?: string, rows?: number, type?: string, min?: number, max?: number, step?: string, placeholder?: string}} [more] */
export function field({work, edit, disabled, faults}, name, label, {hint, rows, type = "text", min, max, step, placeholder} = {}) {
  const read = (/** @type {string} */ text) => (text === "" ? (rows && name !== "template" ? "" : null) : type === "number" ? Number(text) : text);
  const accept = (/** @type {any} */ event) => edit({[name]: read(event.target.value)});
  const invalid = String(`/${name}` in faults);
  return html`<div class="field"><label for="field-${name}">${label}</label>
    ${rows ? html`<textarea id="field-${name}" rows=${rows} ?disabled=${disabled} aria-invalid=${invalid} .value=${work[name] ?? ""} @input=${accept}></textarea>`
      : html`<input id="field-${name}" type=${type} min=${min ?? nothing} max=${max ?? nothing} step=${step ?? nothing} placeholder=${placeholder ?? nothing} ?disabled=${disabled} aria-invalid=${invalid} .value=${work[name] ?? ""} @input=${accept}>`}
    ${faults[`/${name}`] ? html`<span class="fault">${faults[`/${name}`]}</span>` : nothing}${hint ? html`<span class="hint">${hint}</span>` : nothing}</div>`;
}

/** @param {FormProps} props @param {string} name @param {string} label @param {[string, string][]} options @param {string} [hint] */
export function choice({work, edit, disabled, faults}, name, label, options, hint) {
  return html`<div class="field"><label for="field-${name}">${label}</label><select id="field-${name}" ?disabled=${disabled} aria-invalid=${String(`/${name}` in faults)} @change=${(/** @type {any} */ event) => edit({[name]: event.target.value || null})}>
    ${options.map(([id, text]) => html`<option value=${id} ?selected=${id === (work[name] ?? "")}>${text}</option>`)}</select>
    ${faults[`/${name}`] ? html`<span class="fault">${faults[`/${name}`]}</span>` : nothing}${hint ? html`<span class="hint">${hint}</span>` : nothing}</div>`;
}

/** @param {FormProps} props */
export function contextsField({work, edit, disabled, faults}) {
  const fault = Object.entries(faults).find(([pointer]) => pointer.startsWith("/contexts"));
  return html`<context-picker .value=${work.contexts || []} .disabled=${disabled} @change=${(/** @type {CustomEvent} */ event) => { if (Array.isArray(event.detail)) edit({contexts: event.detail}); }}></context-picker>
    ${fault ? html`<span class="fault">${fault[1]}</span>` : nothing}<span class="hint">${t("From broad to narrow. If two say different things, the narrower one wins.")}</span>`;
}

/** Model, temperature and the like. @param {FormProps} props */
export function modelFields(props) {
  const budget = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string} */ hint) => html`<div class="field"><label for="budget-${name}">${label}</label><input id="budget-${name}" type="number" min="0" ?disabled=${props.disabled} .value=${props.work.budget?.[name] ?? ""}
    @input=${(/** @type {any} */ event) => props.edit({budget: {...props.work.budget, [name]: event.target.value === "" ? null : Number(event.target.value)}})}><span class="hint">${hint}</span></div>`;
  return html`<div class="grid-2">${field(props, "model", t("Model"), {hint: t("Used where a request names none.")})}
    ${field(props, "temperature", t("Temperature"), {type: "number", min: 0, max: 2, step: "0.1"})}${field(props, "max_tokens", t("Tokens of an answer at most"), {type: "number", min: 1})}
    ${budget("total", t("Context budget in tokens"), t("Empty: the gateway's default."))}
    ${choice(props, "placement", t("Where the context goes"), [["", t("As configured")], ["system", t("System message")], ["turn", t("Before the last user message")], ["turn_user", t("In the last user message")]])}</div>`;
}
