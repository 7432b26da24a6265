import {html} from "../../../vendor/lit.js";
import {t} from "../../../lib/i18n.js";
import {textArea} from "./field.js";

/** Tone, audience, style, avoid: each a sentence, or a list with one point per line. @param {import("./registry.js").FormProps} props */
export function renderBrandVoice({data, change, disabled, faults}) {
  const traits = [
    ["tone", t("Tone"), t("How the text sounds. Calm and precise? Warm and playful?")],
    ["audience", t("Audience"), t("Whom the text addresses.")],
    ["style", t("Style"), t("Rules of writing: sentence length, person, spelling.")],
    ["avoid", t("Avoid"), t("What must not appear.")],
  ];
  return html`<div class="grid-2">${traits.map(([name, label, hint]) => textArea({
    id: `voice-${name}`, label, hint, disabled, rows: 4, fault: faults[`/${name}`],
    value: Array.isArray(data[name]) ? data[name].join("\n") : data[name] || "",
    change: (text) => change({...data, [name]: readTrait(text, data[name])}),
  }))}</div>`;
}

/** A list stays a list. @param {string} text @param {any} before */
function readTrait(text, before) {
  if (text === "") return null;
  return Array.isArray(before) ? text.split("\n") : text;
}
