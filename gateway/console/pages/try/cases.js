/** What a change is tried on: saved cases, the requests of the last receipts, and questions that a person types in. */
import {get, post} from "../../lib/api.js";
import {formatAge} from "../../lib/format.js";
import {t} from "../../lib/i18n.js";
import {allows} from "../../lib/state.js";

/**
 * @typedef {{title: string, note: string, side: Record<string, any>, typed?: boolean}} TryCase
 * @typedef {TryCase & {state: "waiting" | "same" | "changed" | "failed", tokens?: {from: number, to: number}, outcome?: any, diff?: any, error?: string}} CaseResult
 */

/** @param {string} text one question per line @param {string} agent @returns {TryCase[]} */
export function listQuestions(text, agent) {
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  return lines.map((query) => ({title: query, note: agent, typed: true, side: {context: agent ? {agent} : {}, query}}));
}

/** @param {number} count @returns {Promise<TryCase[]>} */
export async function listReceipts(count) {
  if (!allows("admin") || !count) return [];
  const {items} = await get("receipts", {take: count, status: "ok"});
  return items.map((/** @type {any} */ receipt) => ({
    title: [receipt.agent, receipt.content].filter(Boolean).join(" · ") || receipt.model || receipt.id, note: formatAge(receipt.at), side: {receipt: receipt.id},
  }));
}

/**
 * Every saved case with the policies in use and with the drafts.
 * @param {string[]} drafts
 * @returns {Promise<{figures: any, results: CaseResult[]}>}
 */
export async function runSavedCases(drafts) {
  const [{items}, run] = await Promise.all([get("evaluation-cases", {take: 1000}), post("evaluation-cases/run", {drafts})]);
  const known = Object.fromEntries(items.map((/** @type {any} */ one) => [one.id, one]));
  return {figures: run.figures, results: run.items.map((/** @type {any} */ one) => describeResult(one, known[one.id] || {}))};
}

/** @param {any} result @param {any} saved @returns {CaseResult} */
function describeResult(result, saved) {
  const {agent, profile, prompt, content, language, user, earlier = []} = saved;
  const context = Object.fromEntries(Object.entries({agent, profile, prompt, content, language, user}).filter(([, value]) => value));
  const request = {messages: earlier.map((/** @type {string} */ text) => ({role: "user", content: text}))};
  return {
    title: result.question, note: agent || "", side: {context, request, query: result.question}, tokens: result.tokens || undefined, outcome: result.outcome, error: result.error || undefined,
    state: result.error ? "failed" : result.same ? "same" : "changed",
  };
}

/** @param {TryCase} one @param {string[]} drafts @returns {Promise<CaseResult>} */
export async function compareCase(one, drafts) {
  try {
    const diff = await compareSides(one.side, drafts);
    return {...one, state: diff.same ? "same" : "changed", diff, tokens: diff.tokens.total};
  } catch (/** @type {any} */ error) {
    return {...one, state: "failed", error: error.message};
  }
}

/** A receipt without its text is compared for a question that nothing is about. @param {Record<string, any>} side @param {string[]} drafts @returns {Promise<any>} */
export async function compareSides(side, drafts) {
  try {
    return await post("diff", {from: side, to: {...side, drafts}});
  } catch (/** @type {any} */ error) {
    if (error.status !== 422 || !side.receipt || side.query) throw error;
    return compareSides({...side, query: t("Hello")}, drafts);
  }
}
