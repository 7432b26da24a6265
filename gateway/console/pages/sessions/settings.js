import {html} from "../../vendor/lit.js";
import {t} from "../../lib/i18n.js";
import {icon} from "../../ui/icon.js";

/** @param {any} session @param {(settings: any) => void} save */
export function renderSessionSettings(session, save) {
  const {settings} = session;
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const number = (/** @type {string} */ name) => (form.get(name) === "" ? null : Number(form.get(name)));
    const choice = (/** @type {string} */ name) => ({"": null, true: true, false: false})[String(form.get(name))];
    save({...settings, inject: choice("inject"), retain: choice("retain"), announce: choice("announce"), model: form.get("model") || null, temperature: number("temperature"), max_turns: number("max_turns"), placement: form.get("placement") || null});
  };
  const input = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string} */ type = "text") => html`<div class="field"><label for="session-${name}">${label}</label><input id="session-${name}" name=${name} type=${type} step="any" .value=${settings[name] ?? ""}></div>`;
  const tri = (/** @type {string} */ name, /** @type {string} */ label) => html`<div class="field"><label for="session-${name}">${label}</label><select id="session-${name}" name=${name}>
    ${[["", t("As the agent says")], ["true", t("Yes")], ["false", t("No")]].map(([value, text]) => html`<option value=${value} ?selected=${String(settings[name] ?? "") === value}>${text}</option>`)}</select></div>`;
  return html`<form class="card" @submit=${submit}><div class="card-head"><h2>${t("Settings")}</h2></div><div class="card-body stack">
    ${tri("inject", t("Inject context"))}${tri("retain", t("Keep what the model fetched"))}${tri("announce", t("Tell the model when the content changes"))}
    <div class="grid-2">${input("model", t("Model"))}${input("temperature", t("Temperature"), "number")}${input("max_turns", t("Turns at most"), "number")}
      <div class="field"><label for="session-placement">${t("Where the context goes")}</label><select id="session-placement" name="placement">${[["", t("As the agent says")], ["system", t("System message")], ["turn", t("Before the last user message")], ["turn_user", t("In the last user message")]].map(([value, text]) => html`<option value=${value} ?selected=${(settings.placement ?? "") === value}>${text}</option>`)}</select></div></div>
    <div><button class="button primary">${icon("save")}${t("Save")}</button></div></div></form>`;
}
