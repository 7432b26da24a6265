/** An entity in the middle of its neighbours, as a picture; each neighbour is a link that moves it to the middle. */
import {html, nothing, svg} from "../../vendor/lit.js";
import {encode} from "../../lib/api.js";
import {t} from "../../lib/i18n.js";
import {at} from "../../lib/router.js";

const SIZE = 560;
const CENTRE = SIZE / 2;
const LABEL = 18; // characters of a name

/**
 * @param {any} entity
 * @param {any[]} relations
 * @param {Record<string, any>} neighbours
 * @param {(id: string) => void} walk
 */
export function renderGraph(entity, relations, neighbours, walk) {
  const ids = Object.keys(neighbours);
  if (!ids.length) return html`<p class="muted">${t("Nothing is connected to it yet.")}</p>`;
  const places = Object.fromEntries(ids.map((id, index) => [id, placeOnRing(index, ids.length)]));
  const follow = (/** @type {Event} */ event, /** @type {string} */ id) => { event.preventDefault(); walk(id); };
  return html`<svg class="graph" viewBox="0 0 ${SIZE} ${SIZE}" role="group" aria-label=${t("Neighbours of {name}", {name: entity.name})}>
    ${relations.filter((one) => places[one.from === entity.id ? one.to : one.from]).map((one) => renderEdge(one, places[one.from === entity.id ? one.to : one.from], one.from === entity.id))}
    ${ids.map((id) => svg`<a href=${at(`/knowledge/${encode(id)}`)} class="graph-node" aria-label=${neighbours[id].name} @click=${(/** @type {Event} */ event) => follow(event, id)}>
      <circle cx=${places[id].x} cy=${places[id].y} r="26"></circle><text x=${places[id].x} y=${places[id].y + 42}>${shorten(neighbours[id].name)}</text>
      <text class="initial" x=${places[id].x} y=${places[id].y + 5}>${(neighbours[id].type || "?").slice(0, 2)}</text></a>`)}
    <g class="graph-node centre"><circle cx=${CENTRE} cy=${CENTRE} r="36"></circle><text class="initial" x=${CENTRE} y=${CENTRE + 5}>${entity.type.slice(0, 2)}</text><text x=${CENTRE} y=${CENTRE + 54}>${shorten(entity.name)}</text></g>
    ${nothing}</svg>`;
}

/** Two rings once there are many. @param {number} index @param {number} count */
function placeOnRing(index, count) {
  const outer = count > 12 && index % 2 === 1;
  const radius = count > 12 ? (outer ? 230 : 150) : 195;
  const angle = (2 * Math.PI * index) / count - Math.PI / 2;
  return {x: Math.round(CENTRE + radius * Math.cos(angle)), y: Math.round(CENTRE + radius * Math.sin(angle))};
}

/** @param {any} relation @param {{x: number, y: number}} place @param {boolean} outgoing */
function renderEdge(relation, place, outgoing) {
  const middle = {x: (place.x + CENTRE) / 2, y: (place.y + CENTRE) / 2};
  return svg`<g class="graph-edge"><line x1=${CENTRE} y1=${CENTRE} x2=${place.x} y2=${place.y}></line><text x=${middle.x} y=${middle.y}>${outgoing ? "" : "← "}${shorten(relation.type)}${outgoing ? " →" : ""}</text></g>`;
}

/** @param {string} text */
const shorten = (text) => (text.length > LABEL ? `${text.slice(0, LABEL - 1)}…` : text);
