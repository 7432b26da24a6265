/** `<saved-cases>`: the questions that every change is tried on. Sends `changed` when one was saved or deleted. */
import {html} from "../../vendor/lit.js";
import {call, encode, get} from "../../lib/api.js";
import {t} from "../../lib/i18n.js";
import {at} from "../../lib/router.js";
import {notify} from "../../lib/state.js";
import {ConsoleElement, debounce} from "../../ui/element.js";
import {icon} from "../../ui/icon.js";
import {emptyState, searchField} from "../../ui/parts.js";
import "../../ui/virtual-list.js";
import {askForCase} from "./case-dialog.js";

export class SavedCases extends ConsoleElement {
  static properties = {agents: {attribute: false}, filter: {state: true}};

  constructor() {
    super();
    /** @type {any[]} */
    this.agents = [];
    this.filter = "";
    this.search = debounce((/** @type {string} */ text) => { this.filter = text; this.fetchPage = this.makeFetch(); this.requestUpdate(); });
    this.fetchPage = this.makeFetch();
  }

  makeFetch() {
    const filter = this.filter;
    return (/** @type {number} */ skip, /** @type {number} */ take) => get("evaluation-cases", {skip, take, filter});
  }

  /** @param {any} known */
  async edit(known) {
    if (!(await saveCase(known, this.agents))) return;
    this.fetchPage = this.makeFetch();
    this.requestUpdate();
    this.dispatchEvent(new CustomEvent("changed"));
  }

  render() {
    /** @type {import("../../ui/virtual-list.js").Column[]} */
    const columns = [
      {title: t("Question"), width: "minmax(0, 2fr)", cell: (one) => html`<span class="truncate">${one.question}</span>`},
      {title: t("Should get"), width: "minmax(0, 2fr)", className: "wide-only", cell: (one) => html`<span class="muted truncate">${one.expect.join(", ") || t("nothing")}</span>`},
      {title: t("Agent"), width: "140px", cell: (one) => html`<span class="truncate">${one.agent || "–"}</span>`},
    ];
    const add = html`<button class="button primary" @click=${() => this.edit({})}>${icon("plus")}${t("New case")}</button>`;
    return html`<div class="stack"><div class="toolbar">${searchField(t("Filter"), this.filter, this.search)}${add}</div>
      <virtual-list .label=${t("Saved cases")} .fetchPage=${this.fetchPage} .rowHeight=${52} .href=${() => at("/try?tab=saved")} .columns=${columns} .open=${(/** @type {any} */ item) => this.edit(item)}
        .empty=${html`<div class="card">${emptyState("flask-conical", this.filter ? t("Nothing matches.") : t("No cases yet"), this.filter ? "" : t("Write down questions and what each should get. From then on every change can be tried on them."))}</div>`}></virtual-list></div>`;
  }
}
customElements.define("saved-cases", SavedCases);

/** Asks for a case and saves or deletes it; false: nothing was changed. @param {any} known @param {any[]} agents */
export async function saveCase(known, agents) {
  const chosen = await askForCase(known, agents);
  if (!chosen) return false;
  try {
    const path = known.id ? `evaluation-cases/${encode(known.id)}` : "evaluation-cases";
    if (chosen === "delete") await call("DELETE", path);
    else await call(known.id ? "PUT" : "POST", path, {body: chosen});
    notify("good", chosen === "delete" ? t("Deleted.") : t("Saved."));
    return true;
  } catch (/** @type {any} */ error) {
    notify("bad", error.errors?.[0]?.message || error.message);
    return false;
  }
}
