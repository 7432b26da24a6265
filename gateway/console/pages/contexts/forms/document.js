import {html} from "../../../vendor/lit.js";
import "./document-picker.js";

/** @param {import("./registry.js").FormProps} props */
export const renderDocument = ({data, change, disabled, faults}) => html`<document-picker .data=${data} .disabled=${disabled} .faults=${faults}
  @change=${(/** @type {CustomEvent} */ event) => { event.stopPropagation(); if (event.detail) change(event.detail); }}></document-picker>`;
