/** Asks for a saved case: a question, who is asked, and what it should get. */
import {html} from "../../vendor/lit.js";
import {t} from "../../lib/i18n.js";
import {showDialog} from "../../ui/dialog.js";
import {icon} from "../../ui/icon.js";
import "../../ui/resource-picker.js";

/**
 * @param {any} known a case, or the beginning of one
 * @param {any[]} agents
 * @returns {Promise<any>} the case; "delete" to delete it; null: nothing is to be done
 */
export async function askForCase(known, agents) {
  let expect = known.expect || [];
  const submit = (/** @type {SubmitEvent} */ event, /** @type {(value: any) => void} */ close) => {
    event.preventDefault();
    const form = Object.fromEntries(new FormData(/** @type {HTMLFormElement} */ (event.target)));
    const lines = String(form.earlier).split("\n").map((line) => line.trim()).filter(Boolean);
    close({...withoutState(known), question: form.question, agent: form.agent || null, content: form.content || null, earlier: lines, expect});
  };
  const accept = (/** @type {CustomEvent} */ event) => { if (Array.isArray(event.detail)) expect = event.detail; };
  return await showDialog({
    heading: known.id ? t("Saved case") : t("New case"),
    body: (close) => html`<form id="case-form" class="stack" @submit=${(/** @type {SubmitEvent} */ event) => submit(event, close)}>
      <div class="field"><label class="required" for="case-question">${t("Question")}</label><textarea id="case-question" name="question" rows="2" required autofocus .value=${known.question || ""}></textarea></div>
      <resource-picker .label=${t("Should get")} .hint=${t("Leave it empty for a question that should find nothing.")} .value=${expect} @change=${accept}></resource-picker>
      <div class="grid-2"><div class="field"><label for="case-agent">${t("Ask as agent")}</label><select id="case-agent" name="agent"><option value="">–</option>${agents.map((one) => html`<option value=${one.alias} ?selected=${one.alias === known.agent}>${one.name || one.alias}</option>`)}</select></div>
        <div class="field"><label for="case-content">${t("Content path (optional)")}</label><input id="case-content" name="content" .value=${known.content || ""}></div></div>
      <div class="field"><label for="case-earlier">${t("What was said before (optional)")}</label><textarea id="case-earlier" name="earlier" rows="2" placeholder=${t("One per line")} .value=${(known.earlier || []).join("\n")}></textarea></div></form>`,
    footer: (close) => html`${known.id ? html`<button class="button danger" @click=${() => close("delete")}>${icon("trash")}${t("Delete")}</button>` : ""}
      <button class="button" @click=${() => close(null)}>${t("Cancel")}</button><button class="button primary" form="case-form">${t("Save")}</button>`,
  }) || null;
}

/** What only replies have is not sent back. @param {any} known */
function withoutState({id: _, version: __, updated_at: ___, updated_by: ____, ...rest}) {
  return rest;
}
