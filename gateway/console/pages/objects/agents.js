import {html} from "../../vendor/lit.js";
import {getAll} from "../../lib/api.js";
import {t} from "../../lib/i18n.js";
import "./agent-preview.js";
import {choice, contextsField, field, modelFields} from "./fields.js";
import {ObjectPage} from "./object-page.js";

export class AgentsPage extends ObjectPage {
  constructor() {
    super("agents");
    /** @type {any[]} */
    this.profiles = [];
  }

  connectedCallback() {
    super.connectedCallback();
    getAll("profiles").then((items) => { this.profiles = items; this.requestUpdate(); }, () => {});
  }

  describe() {
    return {
      kind: "agents", title: t("Agents"), lead: t("Who answers: instructions, contexts and settings under one name that clients use as a model."), image: "bot", create: t("New agent"),
      hint: t("For example: Support"),
      columns: [
        {title: t("Contexts"), width: "minmax(0, 1.4fr)", className: "wide-only", cell: (/** @type {any} */ one) => html`${one.contexts.join(", ") || "–"}<span class="sub">${one.profile ? t("profile {name}", {name: one.profile}) : ""}</span>`},
        {title: t("Description"), width: "minmax(0, 2fr)", className: "wide-only", cell: (/** @type {any} */ one) => html`<span class="muted">${one.description || one.instructions}</span>`},
      ],
    };
  }

  listTabs() {
    return /** @type {[string, unknown, () => unknown][]} */ ([["told", t("What it would be told"), () => html`<agent-preview .agent=${this.alias} .draft=${Boolean(this.copy.draft)}></agent-preview>`]]);
  }

  /** @param {any} work @param {(change: any) => void} edit */
  renderForm(work, edit) {
    const props = {work, edit, disabled: this.copy.readOnly, faults: this.copy.faults};
    const selection = (/** @type {any} */ part) => edit({selection: {...work.selection, ...part}});
    return html`<div class="split"><div class="stack">
        <section class="card padded stack">${field(props, "name", t("Name"))}${field(props, "description", t("Description"))}${field(props, "instructions", t("Instructions"), {rows: 6, hint: t("Placed before the context, as the system message.")})}</section>
        <section class="card padded stack"><h2>${t("Model and budget")}</h2>${modelFields(props)}</section></div>
      <div class="stack"><section class="card padded stack tight">${contextsField(props)}</section>
        <section class="card padded stack">${choice(props, "profile", t("Profile"), [["", "–"], ...this.profiles.map((one) => /** @type {[string, string]} */ ([one.alias, one.name || one.alias]))], t("Brings its own contexts and defaults."))}
          <div class="field"><label for="field-preset">${t("Semantic selection")}</label><select id="field-preset" ?disabled=${props.disabled} @change=${(/** @type {any} */ event) => selection({preset: event.target.value || null})}>
            ${[["", t("As configured")], ["conservative", t("Conservative: only what is surely relevant")], ["normal", t("Normal")], ["aggressive", t("Aggressive: fill up")]].map(([id, name]) => html`<option value=${id} ?selected=${id === (work.selection?.preset ?? "")}>${name}</option>`)}</select></div>
          ${choice(props, "tool_permission", t("Tools of servers"), [["", t("As configured")], ["allow", t("May be run")], ["approve", t("Ask first")], ["deny", t("Not at all")]])}
        </section></div></div>`;
  }
}
customElements.define("agents-page", AgentsPage);
