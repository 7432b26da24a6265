/** What a change is tried on: the requests of the last receipts, and questions that a person types in. */
import {get, post} from "../../lib/api.js";
import {formatAge} from "../../lib/format.js";
import {t} from "../../lib/i18n.js";
import {allows} from "../../lib/state.js";

/**
 * @typedef {{title: string, note: string, side: Record<string, any>}} TryCase
 * @typedef {TryCase & {state: "waiting" | "same" | "changed" | "failed", diff?: any, error?: string}} CaseResult
 */

/**
 * @param {number} count of receipts
 * @param {string} questions one per line
 * @param {string} agent
 * @returns {Promise<TryCase[]>}
 */
export async function listCases(count, questions, agent) {
  const typed = questions.split("\n").map((line) => line.trim()).filter(Boolean)
    .map((query) => ({title: query, note: agent, side: {context: agent ? {agent} : {}, query}}));
  if (!allows("admin") || !count) return typed;
  const receipts = (await get("receipts", {take: count, status: "ok"})).items;
  return [...typed, ...receipts.map((/** @type {any} */ receipt) => ({
    title: [receipt.agent, receipt.content].filter(Boolean).join(" · ") || receipt.model || receipt.id, note: formatAge(receipt.at), side: {receipt: receipt.id},
  }))];
}

/** @param {TryCase} one @param {string[]} drafts @returns {Promise<CaseResult>} */
export async function compareCase(one, drafts) {
  try {
    const diff = await compare(one.side, drafts);
    return {...one, state: diff.same ? "same" : "changed", diff};
  } catch (/** @type {any} */ error) {
    return {...one, state: "failed", error: error.message};
  }
}

/** A receipt without its text is compared for a question that nothing is about. @param {Record<string, any>} side @param {string[]} drafts @returns {Promise<any>} */
async function compare(side, drafts) {
  try {
    return await post("diff", {from: side, to: {...side, drafts}});
  } catch (/** @type {any} */ error) {
    if (error.status !== 422 || !side.receipt || side.query) throw error;
    return compare({...side, query: t("Hello")}, drafts);
  }
}
