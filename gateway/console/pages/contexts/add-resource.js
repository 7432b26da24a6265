/** Asks which type of resource to add, and what it is called. */
import {html} from "../../vendor/lit.js";
import {t} from "../../lib/i18n.js";
import {showDialog} from "../../ui/dialog.js";
import {typeIcon} from "../../ui/icon.js";
import {makeAlias} from "../../ui/name-dialog.js";
import {START_DATA} from "./forms/registry.js";

/** @param {any[]} types @param {any[]} existing @returns {Promise<any | null>} */
export async function addResource(types, existing) {
  const type = await showDialog({
    heading: t("Add resource"),
    body: (close) => html`<div class="type-grid">${types.map((one) => html`<button class="type-choice" @click=${() => close(one)}>
      <span class="type-icon">${typeIcon(one)}</span><span><strong>${one.name}</strong><span class="sub">${one.description}</span></span></button>`)}</div>`,
  });
  if (!type) return null;
  const taken = new Set(existing.map((one) => one.id));
  const stem = makeAlias(type.name) || "resource";
  let id = stem;
  for (let number = 2; taken.has(id); number += 1) id = `${stem}-${number}`;
  return {id, type: type.alias, name: type.name, mode: type.recommended_mode || "always", description: "", examples: [], data: START_DATA[type.alias]?.() ?? {}};
}
