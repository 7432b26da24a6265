import {html} from "../../vendor/lit.js";
import {t} from "../../lib/i18n.js";
import {contextsField, field, modelFields} from "./fields.js";
import {ObjectPage} from "./object-page.js";

export class ProfilesPage extends ObjectPage {
  constructor() {
    super("profiles");
  }

  describe() {
    return {
      kind: "profiles", title: t("Profiles"), lead: t("A baseline that several agents share: contexts, model, budget."), image: "sliders-horizontal", create: t("New profile"), hint: t("For example: Writing"),
      columns: [{title: t("Contexts"), width: "minmax(0, 2fr)", className: "wide-only", cell: (/** @type {any} */ one) => one.contexts.join(", ") || "–"}, {title: t("Model"), width: "minmax(0, 1fr)", className: "wide-only", cell: (/** @type {any} */ one) => one.model || "–"}],
    };
  }

  /** @param {any} work @param {(change: any) => void} edit */
  renderForm(work, edit) {
    const props = {work, edit, disabled: this.copy.readOnly, faults: this.copy.faults};
    return html`<div class="split"><section class="card padded stack">${field(props, "name", t("Name"))}${modelFields(props)}</section>
      <section class="card padded stack tight">${contextsField(props)}</section></div>`;
  }
}
customElements.define("profiles-page", ProfilesPage);
