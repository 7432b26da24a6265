/** What a context has besides its resources. */
import {html, nothing} from "../../vendor/lit.js";
import {t} from "../../lib/i18n.js";

/** @param {any} context @param {(change: any) => void} edit @param {boolean} disabled @param {Record<string, string>} faults */
export function renderSettings(context, edit, disabled, faults) {
  const fault = (/** @type {string} */ pointer) => (faults[pointer] ? html`<span class="fault">${faults[pointer]}</span>` : nothing);
  const date = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string} */ hint) => html`<div class="field"><label for=${name}>${label}</label>
    <input id=${name} type="datetime-local" ?disabled=${disabled} .value=${toLocal(context[name])} @change=${(/** @type {any} */ event) => edit({[name]: fromLocal(event.target.value)})}>
    <span class="hint">${hint}</span>${fault(`/${name}`)}</div>`;
  return html`<section class="card padded stack">
    <div class="grid-2">
      <div class="field"><label for="context-name">${t("Name")}</label><input id="context-name" ?disabled=${disabled} .value=${context.name || ""}
        aria-invalid=${String("/name" in faults)} @input=${(/** @type {any} */ event) => edit({name: event.target.value})}>${fault("/name")}</div>
      <div class="field"><label for="context-alias">${t("Alias")}</label><input id="context-alias" class="mono" disabled .value=${context.alias}><span class="hint">${t("Used in requests and files. It cannot be changed later.")}</span></div>
    </div>
    <div class="field"><label class="check"><input type="checkbox" ?disabled=${disabled} .checked=${context.mandatory} @change=${(/** @type {any} */ event) => edit({mandatory: event.target.checked})}> ${t("Mandatory")}</label>
      <span class="hint">${t("Applies to every request of the workspace; no caller can switch it off.")}</span></div>
    <div class="grid-2">${date("valid_from", t("Valid from"), t("Before that, it is not used."))}${date("valid_until", t("Valid until"), t("From then on, it is not used."))}</div>
  </section>`;
}

/** @param {string | null} time */
export function toLocal(time) {
  if (!time) return "";
  const date = new Date(time);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
}

/** @param {string} text */
export const fromLocal = (text) => (text ? new Date(text).toISOString() : null);
