/** Dialogs for entities, relationships and axioms. */
import {html} from "../../vendor/lit.js";
import {getAll} from "../../lib/api.js";
import {t} from "../../lib/i18n.js";
import {showDialog} from "../../ui/dialog.js";
import {makeAlias} from "../../ui/name-dialog.js";

/** @param {string} heading @param {unknown} fields @param {(form: FormData) => any} read @returns {Promise<any | null>} */
async function askForm(heading, fields, read) {
  return await showDialog({
    heading,
    body: (close) => html`<form id="knowledge-form" class="stack" @submit=${(/** @type {SubmitEvent} */ event) => { event.preventDefault(); close(read(new FormData(/** @type {HTMLFormElement} */ (event.target)))); }}>${fields}</form>`,
    footer: (close) => html`<button class="button" @click=${() => close(null)}>${t("Cancel")}</button><button class="button primary" form="knowledge-form">${t("Save")}</button>`,
  }) || null;
}

/** @param {FormDataEntryValue | null} text @param {RegExp} [separator] */
const list = (text, separator = /,/) => String(text || "").split(separator).map((part) => part.trim()).filter(Boolean);

/** @param {any} entity null: a new one */
export function editEntity(entity) {
  const lines = Object.entries(entity?.properties || {}).map(([name, value]) => `${name}: ${Array.isArray(value) ? value.join(", ") : value}`).join("\n");
  const name = (/** @type {any} */ event) => { if (!entity) event.target.form.elements.id.value = makeAlias(event.target.value); };
  return askForm(entity ? t("Edit entity") : t("New entity"), html`
    <div class="field"><label class="required" for="entity-name">${t("Name")}</label><input id="entity-name" name="name" required autofocus .value=${entity?.name || ""} @input=${name}></div>
    <div class="grid-2"><div class="field"><label class="required" for="entity-id">${t("Id")}</label><input id="entity-id" class="mono" name="id" required ?readonly=${Boolean(entity)} .value=${entity?.id || ""}></div>
      <div class="field"><label class="required" for="entity-type">${t("Type")}</label><input id="entity-type" name="type" required .value=${entity?.type || ""} placeholder="Product"></div></div>
    <div class="field"><label for="entity-aliases">${t("Other names")}</label><input id="entity-aliases" name="aliases" .value=${(entity?.aliases || []).join(", ")}></div>
    <div class="field"><label for="entity-properties">${t("Properties")}</label><textarea id="entity-properties" name="properties" rows="5" .value=${lines} placeholder="colour: white"></textarea><span class="hint">${t("One name: value per line, the most important first.")}</span></div>
    <div class="field"><label for="entity-readers">${t("Readers")}</label><input id="entity-readers" name="readers" .value=${(entity?.readers || []).join(", ")}></div>`,
  (form) => ({id: form.get("id"), name: form.get("name"), type: form.get("type"), aliases: list(form.get("aliases")), readers: list(form.get("readers")), properties: readProperties(String(form.get("properties")), entity?.properties || {})}));
}

/** Values that were not touched keep their type. @param {string} text @param {Record<string, any>} before */
function readProperties(text, before) {
  const show = (/** @type {any} */ value) => (Array.isArray(value) ? value.join(", ") : String(value));
  return Object.fromEntries(list(text, /\n/).filter((line) => line.includes(":")).map((line) => {
    const name = line.slice(0, line.indexOf(":")).trim(), value = line.slice(line.indexOf(":") + 1).trim();
    return [name, name in before && show(before[name]) === value ? before[name] : value];
  }));
}

/** @param {string} from */
export async function editRelationship(from) {
  const entities = await getAll("knowledge/entities").catch(() => []);
  return askForm(t("Connect"), html`
    <div class="field"><label class="required" for="relation-type">${t("How")}</label><input id="relation-type" name="type" required autofocus placeholder="made_by"></div>
    <div class="field"><label class="required" for="relation-to">${t("To")}</label><input id="relation-to" name="to" required list="relation-entities"><datalist id="relation-entities">${entities.map((one) => html`<option value=${one.id}>${one.name}</option>`)}</datalist></div>`,
  (form) => ({from, type: form.get("type"), to: form.get("to")}));
}

/** @param {any} axiom null: a new one */
export function editAxiom(axiom) {
  return askForm(axiom ? t("Edit axiom") : t("New axiom"), html`
    <div class="grid-2"><div class="field"><label class="required" for="axiom-id">${t("Id")}</label><input id="axiom-id" class="mono" name="id" required ?readonly=${Boolean(axiom)} .value=${axiom?.id || ""}></div>
      <div class="field"><label class="required" for="axiom-types">${t("For types")}</label><input id="axiom-types" name="types" required .value=${(axiom?.types || []).join(", ")} placeholder="Product"></div></div>
    <div class="field"><label class="required" for="axiom-text">${t("Text")}</label><textarea id="axiom-text" name="text" required rows="4" .value=${axiom?.text || ""}></textarea></div>`,
  (form) => ({id: form.get("id"), types: list(form.get("types")), text: form.get("text"), ...(axiom?.readers ? {readers: axiom.readers} : {})}));
}
