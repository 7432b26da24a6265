/** Differences that people can read: texts line by line, everything else as before and after. */
import {html, nothing} from "../vendor/lit.js";
import {t} from "../lib/i18n.js";

const MAX_LINES = 2000; // beyond that, before and after are shown whole
const AROUND = 3; // unchanged lines around a change

/** @typedef {{sign: " " | "+" | "-", text: string}} Line */

/** @param {{pointer: string, from: any, to: any}[]} changes */
export function renderChanges(changes) {
  if (!changes.length) return html`<p class="muted">${t("No differences.")}</p>`;
  return html`<div class="diff">${changes.map((change) => html`<div class="diff-change"><header><strong>${namePointer(change.pointer)}</strong></header>
    ${renderTextDiff(toText(change.from), toText(change.to))}</div>`)}</div>`;
}

/** `/resources/voice/data/tone` as "resources › voice › tone". @param {string} pointer */
export function namePointer(pointer) {
  const parts = pointer.split("/").filter((part) => part && part !== "data").map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
  return parts.join(" › ") || t("Everything");
}

/** @param {any} value */
function toText(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/** @param {string} before @param {string} after */
export function renderTextDiff(before, after) {
  return html`<div class="diff-lines">${foldLines(compareLines(before, after)).map((line) => line === null
    ? html`<div class="skipped" data-sign="">⋯</div>`
    : html`<div class=${line.sign === "+" ? "added" : line.sign === "-" ? "removed" : ""} data-sign=${line.sign}>${line.text || " "}${
        line.sign === " " ? nothing : html`<span class="visually-hidden"> (${line.sign === "+" ? t("added") : t("removed")})</span>`}</div>`)}</div>`;
}

/** A unified diff as the gateway writes it. @param {string} text */
export function renderUnified(text) {
  return html`<div class="diff-lines">${text.split("\n").filter((line) => !line.startsWith("+++") && !line.startsWith("---")).map((line) =>
    line.startsWith("@@") ? html`<div class="skipped" data-sign="">⋯</div>`
      : html`<div class=${line[0] === "+" ? "added" : line[0] === "-" ? "removed" : ""} data-sign=${line[0] ?? " "}>${line.slice(1) || " "}</div>`)}</div>`;
}

/** The longest common subsequence, line by line. @param {string} before @param {string} after @returns {Line[]} */
export function compareLines(before, after) {
  const a = before === "" ? [] : before.split("\n"), b = after === "" ? [] : after.split("\n");
  if (a.length + b.length > MAX_LINES) return [...a.map(removed), ...b.map(added)];
  const lengths = Array.from({length: a.length + 1}, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      lengths[i][j] = a[i] === b[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  /** @type {Line[]} */
  const lines = [];
  let i = 0, j = 0;
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) { lines.push({sign: " ", text: a[i]}); i += 1; j += 1; }
    else if (lengths[i + 1][j] >= lengths[i][j + 1]) lines.push(removed(a[i++]));
    else lines.push(added(b[j++]));
  }
  return [...lines, ...a.slice(i).map(removed), ...b.slice(j).map(added)];
}

/** @param {string} text @returns {Line} */
const removed = (text) => ({sign: "-", text});
/** @param {string} text @returns {Line} */
const added = (text) => ({sign: "+", text});

/** Leaves out what is far from any change; null stands for it. @param {Line[]} lines @returns {(Line | null)[]} */
function foldLines(lines) {
  const near = new Set();
  lines.forEach((line, index) => {
    if (line.sign === " ") return;
    for (let k = index - AROUND; k <= index + AROUND; k += 1) near.add(k);
  });
  /** @type {(Line | null)[]} */
  const folded = [];
  lines.forEach((line, index) => {
    if (near.has(index)) folded.push(line);
    else if (folded.at(-1) !== null) folded.push(null);
  });
  return folded;
}
