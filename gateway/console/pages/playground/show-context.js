/** What an answer's model was told: its receipt for admins, a dry run of the same request for everybody else. */
import {html, nothing} from "../../vendor/lit.js";
import {encode, get, post} from "../../lib/api.js";
import {t} from "../../lib/i18n.js";
import {at} from "../../lib/router.js";
import {allows} from "../../lib/state.js";
import {showDialog} from "../../ui/dialog.js";
import {icon} from "../../ui/icon.js";
import {noticeBox} from "../../ui/parts.js";
import "../../ui/view-context.js";

const ATTEMPTS = 10; // a receipt is stored within 50 ms after its exchange

/** @param {string} id @returns {Promise<any>} */
async function readReceipt(id) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const receipt = await get(`receipts/${encode(id)}`);
      if (receipt.status !== "started" || attempt >= ATTEMPTS) return receipt;
    } catch (/** @type {any} */ error) {
      if (error.status !== 404 || attempt >= ATTEMPTS) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
}

/** @param {any} message @param {any[]} messages @param {string} model */
export async function showContext(message, messages, model) {
  const exact = allows("admin");
  const exchange = exact ? await readReceipt(message.receipt) : await rehearse(message, messages, model);
  await showDialog({
    heading: t("What the model was told"), wide: true,
    body: () => html`${exact ? nothing : noticeBox("info", t("Your role does not include receipts. This is what the same request would be told now."))}<view-context .exchange=${exchange}></view-context>`,
    footer: exact ? () => html`<a class="button" href=${at(`/receipts/${message.receipt}`)}>${icon("receipt-text")}${t("Open the receipt")}</a>` : undefined,
  });
}

/** @param {any} message @param {any[]} messages @param {string} model */
function rehearse(message, messages, model) {
  const before = messages.slice(0, messages.indexOf(message)).map((one) => ({role: one.role, content: one.text}));
  return post("resolve", {context: message.context, request: {...(model ? {model} : {}), messages: before}});
}
