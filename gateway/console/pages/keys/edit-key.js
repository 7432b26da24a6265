import {html} from "../../vendor/lit.js";
import {t} from "../../lib/i18n.js";
import {showDialog} from "../../ui/dialog.js";

/**
 * Asks for what a key may do.
 * @param {any} key null: a new one
 * @param {boolean} [first] whether it is the first key
 * @returns {Promise<any | null>} the body of the request
 */
export async function editKey(key, first = false) {
  const roles = [["chat", t("Chat: may talk to models")], ["editor", t("Editor: may change contexts, agents and content")], ["admin", t("Admin: may do everything")]];
  const role = key?.role || (first ? "admin" : "chat");
  const list = (/** @type {FormDataEntryValue | null} */ text) => (text ? String(text).split(",").map((part) => part.trim()).filter(Boolean) : null);
  const submit = (/** @type {SubmitEvent} */ event, /** @type {(value: any) => void} */ close) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const number = (/** @type {string} */ name) => (form.get(name) ? Number(form.get(name)) : null);
    close({
      name: form.get("name"), role: form.get("role"), agents: list(form.get("agents")), models: list(form.get("models")), groups: list(form.get("groups")) || [],
      limits: {requests: number("requests"), tokens: number("tokens")}, act_for_users: form.get("act_for_users") === "on", expires_at: form.get("expires_at") || null,
    });
  };
  const input = (/** @type {string} */ name, /** @type {string} */ label, /** @type {any} */ value, /** @type {any} */ more = {}) => html`<div class="field"><label for="key-${name}">${label}</label><input id="key-${name}" name=${name} type=${more.type || "text"} ?required=${more.required} min="1" .value=${value ?? ""}>${more.hint ? html`<span class="hint">${more.hint}</span>` : ""}</div>`;
  return await showDialog({
    heading: key ? t("Edit key") : t("New key"),
    body: (close) => html`<form id="key-form" class="stack" @submit=${(/** @type {SubmitEvent} */ event) => submit(event, close)}>${input("name", t("Name"), key?.name, {required: true})}
      <fieldset class="stack tight"><legend class="label">${t("Role")}</legend>${roles.map(([id, text]) => html`<label class="check"><input type="radio" name="role" value=${id} ?checked=${id === role}> ${text}</label>`)}</fieldset>
      <div class="grid-2">${input("agents", t("Agents"), key?.agents?.join(", "), {hint: t("Empty: all.")})}${input("models", t("Models"), key?.models?.join(", "), {hint: t("Empty: all.")})}${input("requests", t("Requests per minute"), key?.limits?.requests, {type: "number"})}${input("tokens", t("Tokens per minute"), key?.limits?.tokens, {type: "number"})}
        ${input("groups", t("Groups"), key?.groups?.join(", "))}${input("expires_at", t("Expires"), key?.expires_at?.slice(0, 10), {type: "date"})}</div>
      <label class="check"><input type="checkbox" name="act_for_users" ?checked=${key?.act_for_users}> ${t("May act for users")}</label></form>`,
    footer: (close) => html`<button class="button" @click=${() => close(null)}>${t("Cancel")}</button><button class="button primary" form="key-form">${key ? t("Save") : t("Create")}</button>`,
  }) || null;
}
