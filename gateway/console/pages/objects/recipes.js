import {html} from "../../vendor/lit.js";
import {get} from "../../lib/api.js";
import {t} from "../../lib/i18n.js";
import {noticeBox, renderLoading} from "../../ui/parts.js";
import "../../ui/schema-form.js";
import {ObjectPage} from "./object-page.js";

/** What the store keeps about an object, and what has its own place on the page. */
const NOT_EDITED = ["id", "alias", "source", "file", "shadows", "version", "created_at", "updated_at", "updated_by", "draft"];

export class RecipesPage extends ObjectPage {
  constructor() {
    super("recipes");
    /** @type {any} the form's schema, from the API's own description */
    this.schema = null;
  }

  connectedCallback() {
    super.connectedCallback();
    get("openapi.json").then((document) => {
      const {properties, ...rest} = document.components.schemas.RecipeView;
      const own = Object.fromEntries(Object.entries(properties).filter(([name]) => !NOT_EDITED.includes(name)));
      this.schema = {...rest, required: ["name"], properties: own, components: document.components};
      this.requestUpdate();
    }, () => {});
  }

  describe() {
    return {
      kind: "recipes", title: t("Recipes"), lead: t("What a task needs: which content, in which layers, and how much of the world around it."), image: "list-tree", create: t("New recipe"), hint: t("For example: Continue the chapter"),
      columns: [
        {title: t("Layers"), width: "minmax(0, 1.4fr)", className: "wide-only", cell: (/** @type {any} */ one) => html`${one.layers.map((/** @type {any} */ layer) => layer.take).join(", ") || "–"}`},
        {title: t("Description"), width: "minmax(0, 2fr)", className: "wide-only", cell: (/** @type {any} */ one) => html`<span class="muted">${one.description}</span>`},
      ],
    };
  }

  /** @param {any} work @param {(change: any) => void} edit */
  renderForm(work, edit) {
    if (!this.schema) return renderLoading();
    const change = (/** @type {CustomEvent} */ event) => {
      event.stopPropagation();
      if (event.detail && typeof event.detail === "object") edit(fillGaps(event.detail, work));
    };
    return html`<div class="stack">${noticeBox("info", t("A request uses it by naming the task: x-context-task, or Task in the playground."))}
      <section class="card padded"><schema-form .schema=${this.schema} .value=${work} .faults=${this.copy.faults} ?disabled=${this.copy.readOnly} prefix="recipe" @change=${change}></schema-form></section></div>`;
  }
}
customElements.define("recipes-page", RecipesPage);

/** A field that was emptied is sent as null, so that it does not stay as it was. @param {any} next @param {any} before */
function fillGaps(next, before) {
  const gone = Object.keys(before).filter((name) => !(name in next));
  return {...Object.fromEntries(gone.map((name) => [name, Array.isArray(before[name]) ? [] : null])), ...next};
}
