/** Asks for a name and the alias that goes with it. */
import {html} from "../vendor/lit.js";
import {t} from "../lib/i18n.js";
import {showDialog} from "./dialog.js";

/** An alias made of a name: lower case, no accents, hyphens between words. @param {string} name */
export const makeAlias = (name) => name.replaceAll("ß", "ss").normalize("NFD").replace(/[\u0300-\u036f]/g, "").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 60);

/**
 * @param {string} heading
 * @param {string} placeholder
 * @param {unknown} [more] further fields; those with a name are part of the result
 * @returns {Promise<{name: string, alias: string} & Record<string, string> | null>}
 */
export async function askForName(heading, placeholder, more = "") {
  let touched = false;
  const submit = (/** @type {SubmitEvent} */ event, /** @type {(value: any) => void} */ close) => {
    event.preventDefault();
    close(Object.fromEntries(new FormData(/** @type {HTMLFormElement} */ (event.target))));
  };
  return await showDialog({
    heading,
    body: (close) => html`<form id="name-form" class="stack" @submit=${(/** @type {SubmitEvent} */ event) => submit(event, close)}>
      <div class="field"><label class="required" for="new-name">${t("Name")}</label><input id="new-name" name="name" required autofocus autocomplete="off" placeholder=${placeholder}
        @input=${(/** @type {any} */ event) => { if (!touched) event.target.form.elements.alias.value = makeAlias(event.target.value); }}></div>
      <div class="field"><label class="required" for="new-alias">${t("Alias")}</label><input id="new-alias" class="mono" name="alias" required autocomplete="off" pattern="[a-zA-Z0-9][a-zA-Z0-9._\\-]*"
        @input=${() => { touched = true; }}><span class="hint">${t("Used in requests and files. It cannot be changed later.")}</span></div>
      ${more}</form>`,
    footer: (close) => html`<button class="button" @click=${() => close(null)}>${t("Cancel")}</button>
      <button class="button primary" form="name-form">${t("Create")}</button>`,
  }) || null;
}
