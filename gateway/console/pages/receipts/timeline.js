/** What happened during an exchange, one after the other. */
import {html, nothing} from "../../vendor/lit.js";
import {formatCost, formatNumber} from "../../lib/format.js";
import {t} from "../../lib/i18n.js";
import {icon} from "../../ui/icon.js";

/** @param {any} receipt */
export function renderTimeline(receipt) {
  const timings = receipt.timings || {};
  const steps = [
    ["decode_ms", t("Read the request")], ["scope_ms", t("Found out what it is about")], ["build_ms", t("Chose the context")], ["compose_ms", t("Placed it")],
  ].filter(([name]) => timings[name] !== undefined);
  return html`<ol class="timeline">
    ${steps.map(([name, text]) => entry("check", text, html`<span class="numeric">${ms(timings[name])}</span>`))}
    ${(receipt.turns || []).map((/** @type {any} */ turn, /** @type {number} */ index) => html`${entry("cloud", t("Turn {n}: {upstream}", {n: index + 1, upstream: turn.upstream}), html`<span class="badge ${turn.status < 400 ? "good" : "bad"}">${turn.status}</span>
      <span class="numeric">${t("first byte after {time}", {time: ms(turn.first_byte_ms)})}</span>${turn.usage ? html`<span class="numeric">${t("{a} in, {b} out", {a: turn.usage.prompt_tokens ?? 0, b: turn.usage.completion_tokens ?? 0})}</span>` : nothing}
      ${turn.cached_tokens ? html`<span class="numeric">${t("{n} cached", {n: turn.cached_tokens})}</span>` : nothing}${turn.cost === null || turn.cost === undefined ? nothing : html`<span>${formatCost(turn.cost)}</span>`}`)}
      ${index === 0 ? (receipt.tools || []).map(renderTool) : nothing}`)}
    ${entry("circle-check", t("Finished"), html`<span class="numeric">${ms(timings.total_ms)}</span>`)}</ol>`;
}

/** @param {any} tool */
function renderTool(tool) {
  return entry("wrench", html`<code>${tool.server ? `${tool.server}.` : ""}${tool.name}</code>${tool.resource ? html` <span class="muted">${tool.resource}</span>` : nothing}`, html`${tool.failed ? html`<span class="badge bad">${t("failed")}</span>` : nothing}
    <span class="numeric">${ms(tool.ms)}</span><span class="numeric">${t("{n} characters", {n: tool.characters ?? 0})}</span>${tool.left_out ? html`<span>${tool.left_out}</span>` : nothing}`);
}

/** @param {string} image @param {unknown} title @param {unknown} facts */
const entry = (image, title, facts) => html`<li><span class="timeline-icon">${icon(image)}</span><span class="grow">${title}</span><span class="row muted timeline-facts">${facts}</span></li>`;

/** @param {number | null | undefined} value */
const ms = (value) => (value === null || value === undefined ? "–" : `${formatNumber(Math.round(value * 100) / 100)} ms`);
