/**
 * Markdown as templates: headings, lists, code, quotes, emphasis and links to http(s) addresses. Every piece of the text goes
 * through the template's own escaping; HTML in it is shown, never run.
 */
import {html} from "../vendor/lit.js";

// Every piece is bounded, so that a text of nothing but brackets takes no longer than another.
const INLINE = /(`[^`]+`)|(\*\*[^*]+\*\*)|(\*[^*\s][^*]*\*)|\[([^[\]]{1,500})\]\((https?:\/\/[^\s)]{1,2000})\)/;
const MAX_LENGTH = 200000; // characters; beyond that, as plain text

/** @param {string} text */
export function renderMarkdown(text) {
  if (text.length > MAX_LENGTH) return html`<pre>${text}</pre>`;
  return html`<div class="markdown">${splitBlocks(text).map(renderBlock)}</div>`;
}

/** @typedef {{kind: "code" | "list" | "ordered" | "heading" | "quote" | "text", lines: string[]}} Block */

/** @param {string} line @returns {Block["kind"]} */
function classify(line) {
  if (/^\s*[-*+]\s+/.test(line)) return "list";
  if (/^\s*\d+[.)]\s+/.test(line)) return "ordered";
  if (/^#{1,6}\s/.test(line)) return "heading";
  if (/^>\s?/.test(line)) return "quote";
  return "text";
}

/** @param {string} text @returns {Block[]} */
export function splitBlocks(text) {
  /** @type {Block[]} */
  const blocks = [];
  /** @type {Block | null} */
  let current = null;
  let fenced = false;
  for (const line of text.split("\n")) {
    if (line.trimStart().startsWith("```")) {
      fenced = !fenced;
      current = fenced ? {kind: "code", lines: []} : null;
      if (current) blocks.push(current);
      continue;
    }
    if (fenced) { current?.lines.push(line); continue; }
    if (!line.trim()) { current = null; continue; }
    const kind = classify(line);
    if (!current || current.kind !== kind || kind === "heading") blocks.push((current = {kind, lines: []}));
    current.lines.push(line);
  }
  return blocks;
}

/** @param {Block} block */
function renderBlock({kind, lines}) {
  if (kind === "code") return html`<pre><code>${lines.join("\n")}</code></pre>`;
  if (kind === "list") return html`<ul>${lines.map((line) => html`<li>${renderInline(line.replace(/^\s*[-*+]\s+/, ""))}</li>`)}</ul>`;
  if (kind === "ordered") return html`<ol>${lines.map((line) => html`<li>${renderInline(line.replace(/^\s*\d+[.)]\s+/, ""))}</li>`)}</ol>`;
  if (kind === "heading") return html`<h3>${renderInline(lines[0].replace(/^#+\s+/, ""))}</h3>`;
  if (kind === "quote") return html`<blockquote>${lines.map((line) => html`<p>${renderInline(line.replace(/^>\s?/, ""))}</p>`)}</blockquote>`;
  return html`<p>${lines.map((line, index) => html`${index ? html`<br>` : ""}${renderInline(line)}`)}</p>`;
}

/** @param {string} text @returns {unknown[]} */
function renderInline(text) {
  const parts = [];
  let rest = text;
  for (let match = INLINE.exec(rest); match; match = INLINE.exec(rest)) {
    parts.push(rest.slice(0, match.index), renderSpan(match));
    rest = rest.slice(match.index + match[0].length);
  }
  return [...parts, rest];
}

/** @param {RegExpExecArray} match */
function renderSpan([whole, code, strong, emphasis, label, address]) {
  if (code) return html`<code>${whole.slice(1, -1)}</code>`;
  if (strong) return html`<strong>${whole.slice(2, -2)}</strong>`;
  if (emphasis) return html`<em>${whole.slice(1, -1)}</em>`;
  return html`<a href=${address} target="_blank" rel="noopener noreferrer">${label}</a>`;
}
