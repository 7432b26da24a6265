/** The less common settings of a resource. */
import {html, nothing} from "../../vendor/lit.js";
import {t} from "../../lib/i18n.js";
import {fromLocal, toLocal} from "./settings.js";

/** @param {any} resource @param {(change: any) => void} edit @param {boolean} disabled @param {Record<string, string>} faults */
export function renderAdvanced(resource, edit, disabled, faults) {
  const input = (/** @type {string} */ name, /** @type {string} */ label, /** @type {any} */ more = {}) => html`<div class="field"><label for="resource-${name}">${label}</label>
    <input id="resource-${name}" type=${more.type || "text"} min=${more.min ?? nothing} max=${more.max ?? nothing} ?disabled=${disabled} aria-invalid=${String(`/${name}` in faults)}
      .value=${more.value ?? resource[name] ?? ""} @change=${(/** @type {any} */ event) => edit({[name]: (more.read || String)(event.target.value)})}>
    ${faults[`/${name}`] ? html`<span class="fault">${faults[`/${name}`]}</span>` : nothing}${more.hint ? html`<span class="hint">${more.hint}</span>` : nothing}</div>`;
  const list = (/** @type {string} */ text) => text.split(",").map((part) => part.trim()).filter(Boolean);
  const check = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string} */ hint) => html`<div class="field"><label class="check"><input type="checkbox" ?disabled=${disabled} .checked=${Boolean(resource[name])}
    @change=${(/** @type {any} */ event) => edit({[name]: event.target.checked})}> ${label}</label><span class="hint">${hint}</span></div>`;
  const select = (/** @type {string} */ name, /** @type {string} */ label, /** @type {[string, string][]} */ options, /** @type {any} */ value) => html`<div class="field"><label for="resource-${name}">${label}</label>
    <select id="resource-${name}" ?disabled=${disabled} @change=${(/** @type {any} */ event) => edit({[name]: event.target.value || null})}>${options.map(([id, text]) => html`<option value=${id} ?selected=${id === (value ?? "")}>${text}</option>`)}</select></div>`;
  return html`<details class="card"><summary>${t("More settings")}</summary><div class="card-body stack">
    <div class="grid-2">
      ${input("priority", t("Priority"), {type: "number", min: 0, max: 1000, value: resource.priority ?? 100, read: Number, hint: t("Smaller numbers are paid for first when the budget is short.")})}
      ${select("kind", t("Kind"), [["", t("As its mode suggests")], ["rule", t("Rule")], ["reference", t("Reference")]], resource.kind)}
      ${input("languages", t("Languages"), {value: (resource.languages || []).join(", "), read: list, hint: t("Empty: all. Otherwise only for requests in these, such as de, fr.")})}
      ${input("readers", t("Readers"), {value: (resource.readers || []).join(", "), read: list, hint: t("Empty: everybody. Otherwise users and groups, such as group:legal.")})}
      ${input("key", t("Conflict key"), {read: (/** @type {string} */ text) => text || null, hint: t("Of resources with the same type and key, the narrowest wins.")})}
      ${select("truncate", t("If it does not fit"), [["extractive", t("keep the best sentences")], ["keep_start", t("keep the beginning")], ["keep_end", t("keep the end")], ["summarize", t("use a summary by a model")], ["none", t("leave it out")]], resource.truncate || "extractive")}
      ${input("valid_from", t("Valid from"), {type: "datetime-local", value: toLocal(resource.valid_from), read: fromLocal})}
      ${input("valid_until", t("Valid until"), {type: "datetime-local", value: toLocal(resource.valid_until), read: fromLocal})}
    </div>
    ${check("mandatory", t("Mandatory"), t("No caller and no session can switch it off."))}
    ${check("required", t("Required"), t("If it does not fit into the budget, the request says so."))}
  </div></details>`;
}
