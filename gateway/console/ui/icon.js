import {html, svg} from "../vendor/lit.js";
import {ICONS} from "../vendor/icons.js";
import {styled} from "./style.js";

/** Names that resource types use, and what the icon set calls them now. @type {Record<string, string>} */
const RENAMED = {"align-left": "text-align-start", help: "circle-question-mark", history: "file-clock"};

/**
 * A decorative icon; whoever shows it without a text beside it has to label its button.
 * @param {string} name
 */
export function icon(name) {
  /** @type {Record<string, [string, Record<string, string>][]>} */
  const known = /** @type {any} */ (ICONS);
  const shapes = known[RENAMED[name] || name] || known.shapes;
  return html`<svg class="icon" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.75" stroke-linecap="round"
    stroke-linejoin="round" aria-hidden="true">${shapes.map(renderShape)}</svg>`;
}

/** The icon of a resource type: a known one, or the shape that it brings along. @param {any} type */
export function typeIcon(type) {
  if (!type?.icon_address) return icon(type?.icon || "file");
  return html`<span class="icon own-icon" aria-hidden="true" ${styled({"mask-image": `url("${new URL(type.icon_address, location.origin).href}")`})}></span>`;
}

/** @param {[string, Record<string, any>]} shape */
function renderShape([kind, a]) {
  if (kind === "path") return svg`<path d=${a.d}></path>`;
  if (kind === "circle") return svg`<circle cx=${a.cx} cy=${a.cy} r=${a.r}></circle>`;
  if (kind === "line") return svg`<line x1=${a.x1} y1=${a.y1} x2=${a.x2} y2=${a.y2}></line>`;
  if (kind === "rect") return svg`<rect x=${a.x ?? 0} y=${a.y ?? 0} width=${a.width} height=${a.height} rx=${a.rx ?? 0}></rect>`;
  if (kind === "ellipse") return svg`<ellipse cx=${a.cx} cy=${a.cy} rx=${a.rx} ry=${a.ry}></ellipse>`;
  return svg`<polyline points=${a.points}></polyline>`;
}
