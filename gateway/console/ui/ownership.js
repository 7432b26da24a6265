/** Objects of policy files: read-only until the store adopts them, given back with `release`. */
import {html, nothing} from "../vendor/lit.js";
import {post} from "../lib/api.js";
import {t} from "../lib/i18n.js";
import {allows, notify} from "../lib/state.js";
import {confirmAction} from "./dialog.js";
import {icon} from "./icon.js";
import {noticeBox} from "./parts.js";

/** @param {string} kind @param {any} object @param {() => void} done */
export function renderFileNotice(kind, object, done) {
  const adopt = () => change("adopt", kind, object, t("Adopted. You can edit it here now; requests stay the same until you do."), done);
  return noticeBox("info", html`${t("This comes from a policy file and is read-only here:")} <code>${object.file}</code>`,
    allows("admin") ? html`<button class="button small" @click=${adopt}>${icon("pencil")}${t("Adopt to edit")}</button>` : html`<span class="hint">${t("An admin can adopt it.")}</span>`);
}

/** @param {string} kind @param {any} object @param {() => void} done */
export function releaseButton(kind, object, done) {
  if (!object.shadows || !allows("admin")) return nothing;
  const release = async () => {
    const sure = await confirmAction(t("Give it back to its file?"), t("What is in {file} is used again, and what was changed here is deleted. Its versions stay.", {file: object.shadows}), {label: t("Give back"), danger: true});
    if (sure) change("release", kind, object, t("Given back to its file."), done);
  };
  return html`<button class="button" @click=${release}>${icon("undo-2")}${t("Give back to the file")}</button>`;
}

/** @param {"adopt" | "release"} action @param {string} kind @param {any} object @param {string} message @param {() => void} done */
async function change(action, kind, object, message, done) {
  try {
    const result = await post(action, {objects: [`${kind}/${object.alias ?? object.id}`]});
    const step = result.items[0];
    if (step?.reason) notify("info", step.reason);
    else notify("good", message);
    done();
  } catch (/** @type {any} */ error) {
    notify("bad", error.message);
  }
}
