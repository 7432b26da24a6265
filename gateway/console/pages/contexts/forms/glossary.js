import {html, nothing} from "../../../vendor/lit.js";
import {t} from "../../../lib/i18n.js";
import {icon} from "../../../ui/icon.js";

/** @param {any} terms a list, or a mapping of term to definition @returns {{term: string, definition: string}[]} */
const listTerms = (terms) => (Array.isArray(terms) ? terms : Object.entries(terms || {}).map(([term, definition]) => ({term, definition})));

/** Terms added, edited and removed in place. @param {import("./registry.js").FormProps} props */
export function renderGlossary({data, change, disabled, faults}) {
  const terms = listTerms(data.terms);
  const send = (/** @type {any[]} */ next) => change({...data, terms: next});
  const edit = (/** @type {number} */ index, /** @type {any} */ part) => send(terms.with(index, {...terms[index], ...part}));
  const add = (/** @type {any} */ event) => {
    send([...terms, {term: "", definition: ""}]);
    const list = event.target.closest(".glossary");
    setTimeout(() => list.querySelector(".glossary-term:last-of-type input")?.focus(), 50);
  };
  return html`<fieldset class="stack tight glossary"><legend class="label">${t("Terms")}</legend>
    ${faults["/terms"] ? html`<span class="fault">${faults["/terms"]}</span>` : nothing}
    ${terms.map(({term, definition}, index) => html`<div class="glossary-term">
      <input aria-label=${t("Term {n}", {n: index + 1})} placeholder=${t("Term")} ?disabled=${disabled} .value=${term} aria-invalid=${String(`/terms/${index}/term` in faults)}
        @input=${(/** @type {any} */ event) => edit(index, {term: event.target.value})}>
      <textarea rows="1" aria-label=${t("Definition of {name}", {name: term || String(index + 1)})} placeholder=${t("What it means here")} ?disabled=${disabled} .value=${definition} aria-invalid=${String(`/terms/${index}/definition` in faults)}
        @input=${(/** @type {any} */ event) => edit(index, {definition: event.target.value})}></textarea>
      ${disabled ? nothing : html`<button type="button" class="button ghost small icon-only" aria-label=${t("Remove {name}", {name: term || String(index + 1)})} @click=${() => send(terms.toSpliced(index, 1))}>${icon("x")}</button>`}
    </div>`)}
    ${disabled ? nothing : html`<div><button type="button" class="button small" @click=${add}>${icon("plus")}${t("Add term")}</button></div>`}</fieldset>`;
}
