/** `<version-list>`: the versions of an object, what each changed, and a way back. */
import {html, nothing} from "../vendor/lit.js";
import {call, encode, get} from "../lib/api.js";
import {formatTime} from "../lib/format.js";
import {t} from "../lib/i18n.js";
import {notify} from "../lib/state.js";
import {confirmAction} from "./dialog.js";
import {renderChanges} from "./diff-view.js";
import {ConsoleElement, Loader} from "./element.js";
import {icon} from "./icon.js";
import {emptyState} from "./parts.js";

export class VersionList extends ConsoleElement {
  static properties = {path: {}, current: {type: Number}, from: {state: true}, to: {state: true}, changes: {state: true}};

  constructor() {
    super();
    this.path = "";
    this.current = 0;
    this.from = 0;
    this.to = 0;
    /** @type {any[] | null} */
    this.changes = null;
    this.loader = new Loader(this, (signal) => get(`${this.path}/versions`, {take: 100}, signal));
  }

  /** @param {Map<string, unknown>} changed */
  willUpdate(changed) {
    if (changed.has("path") || changed.has("current")) this.loader.run();
  }

  /** @param {number} from @param {number} to */
  async compare(from, to) {
    [this.from, this.to] = [from, to];
    this.changes = null;
    try {
      this.changes = (await get(`${this.path}/versions/compare`, {from, to})).changes;
    } catch (/** @type {any} */ error) {
      notify("bad", error.message);
    }
  }

  /** @param {number} version */
  async restore(version) {
    if (!(await confirmAction(t("Restore version {n}?", {n: version}), t("It becomes the next version; nothing is lost."), {label: t("Restore")}))) return;
    try {
      await call("POST", `${this.path}/rollback`, {body: {version}});
      notify("good", t("Version {n} is in use again.", {n: version}));
      this.dispatchEvent(new CustomEvent("restored"));
    } catch (/** @type {any} */ error) {
      notify("bad", error.message);
    }
  }

  render() {
    return this.loader.render(({items}) => items.length ? html`<div class="split"><section class="card"><ul class="version-rows">${items.map((/** @type {any} */ one, /** @type {number} */ index) => html`<li>
        <span class="grow"><strong>${t("Version {n}", {n: one.version})}</strong> ${one.version === this.current ? html`<span class="badge good">${t("in use")}</span>` : nothing}
          <span class="sub">${formatTime(one.at)} · ${one.by} · ${nameAction(one.action)}</span></span>
        ${index < items.length - 1 ? html`<button class="button small" @click=${() => this.compare(items[index + 1].version, one.version)}>${t("What changed")}</button>` : nothing}
        ${one.version === this.current ? nothing : html`<button class="button small" @click=${() => this.compare(one.version, this.current)}>${t("Compare with now")}</button>
          <button class="button small" @click=${() => this.restore(one.version)}>${icon("rotate-ccw")}${t("Restore")}</button>`}</li>`)}</ul></section>
      <section aria-live="polite">${this.changes ? html`<h2 class="gap-below">${t("Version {from} → {to}", {from: this.from, to: this.to})}</h2>${renderChanges(this.changes)}`
        : html`<p class="muted">${t("Choose two versions to compare them.")}</p>`}</section></div>`
      : emptyState("file-clock", t("No versions yet"), t("Every save keeps the former version here.")));
  }
}
customElements.define("version-list", VersionList);

/** @param {string} action */
function nameAction(action) {
  const names = /** @type {Record<string, string>} */ ({create: t("created"), update: t("changed"), delete: t("deleted"), rollback: t("restored"), publish: t("published"), import: t("imported"), adopt: t("adopted")});
  return names[action] || action;
}

/** @param {string} kind @param {any} object @param {() => void} restored */
export function renderVersions(kind, object, restored) {
  if (object.source === "file") return emptyState("lock", t("Objects of policy files have no versions here"), t("Their history is where the files are kept."));
  return html`<version-list .path=${`${kind}/${encode(object.alias ?? object.id)}`} .current=${object.version} @restored=${restored}></version-list>`;
}
