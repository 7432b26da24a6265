/** What a change is tried on: saved cases, the requests of the last receipts, and questions that a person types in. */
import {get, getAll, post} from "../../lib/api.js";
import {formatAge} from "../../lib/format.js";
import {t} from "../../lib/i18n.js";
import {allows} from "../../lib/state.js";

const AT_ONCE = 50; // saved cases of one call

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

/** @typedef {{figures: any, results: CaseResult[], total: number}} SavedRun */

/**
 * Every saved case with the policies in use and with the drafts, some at a time.
 * @param {string[]} drafts
 * @param {(run: SavedRun) => boolean} report what is known so far; false: nobody wants to know any more
 */
export async function runSavedCases(drafts, report) {
  const cases = await getAll("evaluation-cases");
  const known = Object.fromEntries(cases.map((/** @type {any} */ one) => [one.id, one]));
  /** @type {any[]} */
  const runs = [];
  /** @type {CaseResult[]} */
  const results = [];
  for (let start = 0; start < cases.length; start += AT_ONCE) {
    const run = await post("evaluation-cases/run", {drafts, cases: cases.slice(start, start + AT_ONCE).map((one) => one.id)});
    runs.push(run);
    results.push(...run.items.map((/** @type {any} */ one) => describeResult(one, known[one.id] || {})));
    if (!report({figures: sumFigures(runs, known), results: [...results], total: cases.length})) return;
  }
}

/** The figures of several runs as those of one. @param {any[]} runs @param {Record<string, any>} known */
function sumFigures(runs, known) {
  const sides = /** @type {const} */ (["from", "to"]);
  return Object.fromEntries(sides.map((side) => {
    const weighed = runs.map((run) => ({figures: run.figures[side], weights: weighRun(run, known, side)}));
    const names = /** @type {const} */ (["precision", "recall", "false_injections", "r_at_1"]);
    return [side, Object.fromEntries(names.map((name) => {
      const parts = weighed.filter(({figures}) => figures[name] !== null);
      const whole = parts.reduce((sum, {weights}) => sum + weights[name], 0);
      return [name, whole ? parts.reduce((sum, {figures, weights}) => sum + figures[name] * weights[name], 0) / whole : null];
    }))];
  }));
}

/** What each figure of a run is a share of. @param {any} run @param {Record<string, any>} known @param {"from" | "to"} side */
function weighRun(run, known, side) {
  const compared = run.items.filter((/** @type {any} */ one) => one.outcome);
  const answered = compared.filter((/** @type {any} */ one) => known[one.id]?.expect.length);
  const injected = answered.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.outcome[side].injected.length, 0);
  return {precision: injected, recall: answered.length, r_at_1: answered.length, false_injections: compared.length - answered.length};
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
