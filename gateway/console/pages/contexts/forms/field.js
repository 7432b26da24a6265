import {html, nothing} from "../../../vendor/lit.js";
import {icon} from "../../../ui/icon.js";

/**
 * A text area with its label, hint and fault.
 * @param {{id: string, label: string, hint?: string, value: string, change: (value: string) => void, disabled: boolean, fault?: string, tall?: boolean, required?: boolean, rows?: number}} props
 */
export function textArea({id, label, hint, value, change, disabled, fault, tall, required, rows}) {
  return html`<div class="field"><label class=${required ? "required" : ""} for=${id}>${label}</label>
    <textarea id=${id} class=${tall ? "tall" : ""} rows=${rows ?? nothing} ?disabled=${disabled} aria-invalid=${String(Boolean(fault))} aria-describedby="${id}-about"
      .value=${value} @input=${(/** @type {any} */ event) => change(event.target.value)}></textarea>
    <div id="${id}-about">${fault ? html`<span class="fault">${icon("circle-alert")} ${fault}</span>` : nothing}${hint ? html`<span class="hint">${hint}</span>` : nothing}</div></div>`;
}
