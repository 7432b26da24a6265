/** Two people changed the same object: shows both, merges what does not conflict, asks about the rest. */
import {html} from "../vendor/lit.js";
import {t} from "../lib/i18n.js";
import {showDialog} from "./dialog.js";
import {renderTextDiff} from "./diff-view.js";

/** What the store keeps about an object, and what has its own operations. */
const NOT_EDITED = new Set(["id", "alias", "ref", "default", "source", "file", "version", "created_at", "updated_at", "updated_by", "draft", "shadows", "shadowed", "path", "children"]);

/** @typedef {{key: string, label: string, mine: any, theirs: any, conflict: boolean, choice: "mine" | "theirs"}} Part */

/** @param {any} one @param {any} other */
const same = (one, other) => JSON.stringify(one ?? null) === JSON.stringify(other ?? null);

/**
 * What either side changed since `base`; resources of a context count one by one.
 * @param {any} base @param {any} mine @param {any} theirs
 * @returns {Part[]}
 */
export function compareSides(base, mine, theirs) {
  const names = [...new Set([base, mine, theirs].flatMap(Object.keys))].filter((name) => !NOT_EDITED.has(name));
  const fields = names.filter((name) => name !== "resources").map((name) => describePart(name, name, base[name], mine[name], theirs[name]));
  return [...fields, ...compareResources(base, mine, theirs)].filter((part) => part !== null);
}

/** @param {any} base @param {any} mine @param {any} theirs */
function compareResources(base, mine, theirs) {
  const [before, own, other] = [base, mine, theirs].map((side) => Object.fromEntries((side.resources || []).map((/** @type {any} */ one) => [one.id, withoutState(one)])));
  const ids = [...new Set([before, own, other].flatMap(Object.keys))];
  return ids.map((id) => describePart(`resource:${id}`, id, before[id], own[id], other[id]));
}

/** The copy of a link's state is not part of what people edit. @param {any} resource */
function withoutState(resource) {
  const {link: _, ref: __, ...rest} = resource;
  return rest;
}

/** @param {string} key @param {string} label @param {any} base @param {any} mine @param {any} theirs @returns {Part | null} */
function describePart(key, label, base, mine, theirs) {
  if (same(mine, theirs)) return null;
  const conflict = !same(mine, base) && !same(theirs, base);
  return {key, label, mine, theirs, conflict, choice: same(mine, base) ? "theirs" : "mine"};
}

/** @param {any} mine @param {any} theirs @param {Part[]} parts */
export function mergeSides(mine, theirs, parts) {
  const chosen = Object.fromEntries(parts.map((part) => [part.key, part.choice === "mine" ? part.mine : part.theirs]));
  const merged = {...theirs};
  for (const name of Object.keys(chosen)) if (!name.startsWith("resource:")) merged[name] = chosen[name];
  if (!mine.resources) return merged;
  const both = [...mine.resources, ...theirs.resources];
  const known = Object.fromEntries(both.map((one) => [one.id, one]));
  merged.resources = [...new Set(both.map((one) => one.id))].map((id) => (`resource:${id}` in chosen ? chosen[`resource:${id}`] : known[id])).filter(Boolean);
  return merged;
}

/**
 * @param {any} base @param {any} mine @param {any} theirs
 * @returns {Promise<any | null>} the merged object; null: the person wants to think about it, and nothing is lost
 */
export async function resolveConflict(base, mine, theirs) {
  const parts = compareSides(base, mine, theirs);
  const agreed = await showDialog({
    heading: t("Somebody else has saved this"), wide: true,
    body: (_, update) => html`<p class="soft">${t("{name} saved version {version} while you were editing. Changes to different parts are combined; where both of you changed the same part, choose.", {name: theirs.updated_by || "?", version: theirs.version})}</p>
      <div class="diff">${parts.map((part) => renderPart(part, update))}</div>`,
    footer: (close) => html`<button class="button" @click=${() => close(false)}>${t("Keep editing")}</button>
      <button class="button primary" @click=${() => close(true)}>${t("Save the combination")}</button>`,
  });
  return agreed ? mergeSides(mine, theirs, parts) : null;
}

/** @param {Part} part @param {() => void} update */
function renderPart(part, update) {
  const option = (/** @type {"mine" | "theirs"} */ side, /** @type {string} */ label) => html`<label class="check"><input type="radio" name=${part.key} .checked=${part.choice === side}
    @change=${() => { part.choice = side; update(); }}> ${label}</label>`;
  return html`<fieldset class="diff-change"><legend class="visually-hidden">${part.label}</legend><header><strong>${part.label}</strong>
      <span class="row">${part.conflict ? html`<span class="badge bad">${t("both changed it")}</span>` : ""}${option("theirs", t("Theirs"))}${option("mine", t("Mine"))}</span></header>
    ${renderTextDiff(show(part.theirs), show(part.mine))}</fieldset>`;
}

/** @param {any} value */
function show(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "object") return String(value);
  const {data = {}, ...rest} = value;
  const line = (/** @type {[string, any]} */ [name, one]) => `${name}: ${typeof one === "string" ? one : JSON.stringify(one)}`;
  return [...Object.entries(rest), ...Object.entries(data)].filter(([, one]) => one !== null && one !== "" && !(Array.isArray(one) && !one.length)).map(line).join("\n");
}
