/** The content tree: which contexts a node has, what it inherits from where, and what is in effect. */
import {html} from "../../vendor/lit.js";
import {call} from "../../lib/api.js";
import {t} from "../../lib/i18n.js";
import {navigate} from "../../lib/router.js";
import {notify} from "../../lib/state.js";
import {ConsoleElement} from "../../ui/element.js";
import {icon} from "../../ui/icon.js";
import {showDialog} from "../../ui/dialog.js";
import {makeAlias} from "../../ui/name-dialog.js";
import {emptyState, hrefOfNode, pageHead} from "../../ui/parts.js";
import "./node.js";
import "./tree.js";

export class ContentPage extends ConsoleElement {
  static properties = {query: {attribute: false}};

  constructor() {
    super();
    /** @type {URLSearchParams} */
    this.query = new URLSearchParams();
  }

  /** The id or path of the chosen node; in the query, because it may have slashes. */
  get node() {
    return this.query.get("node") || "";
  }

  /** @param {string} parent */
  async add(parent) {
    const chosen = await showDialog({
      heading: parent ? t("New node below {name}", {name: parent}) : t("New root node"),
      body: (close) => html`<form id="node-form" class="stack" @submit=${(/** @type {SubmitEvent} */ event) => { event.preventDefault(); close(Object.fromEntries(new FormData(/** @type {HTMLFormElement} */ (event.target)))); }}>
        <div class="field"><label class="required" for="node-title">${t("Title")}</label><input id="node-title" name="title" required autofocus @input=${(/** @type {any} */ event) => { event.target.form.elements.key.value = makeAlias(event.target.value); }}></div>
        <div class="field"><label class="required" for="node-key">${t("Key")}</label><input id="node-key" class="mono" name="key" required><span class="hint">${t("The last part of its path.")}</span></div>
        <div class="field"><label for="node-type">${t("Type")}</label><input id="node-type" name="type" placeholder="page"></div></form>`,
      footer: (close) => html`<button class="button" @click=${() => close()}>${t("Cancel")}</button><button class="button primary" form="node-form">${t("Create")}</button>`,
    });
    if (!chosen) return;
    try {
      const {type, ...rest} = chosen;
      const {data} = await call("POST", "content", {body: {...rest, ...(type ? {type} : {}), ...(parent ? {parent} : {})}});
      notify("good", t("Added."));
      this.reloadTree();
      navigate(hrefOfNode(data.id));
    } catch (/** @type {any} */ error) {
      notify("bad", error.message);
    }
  }

  reloadTree() {
    /** @type {import("./tree.js").ContentTree | null} */ (this.querySelector("content-tree"))?.load();
  }

  render() {
    return html`<div class="page">${pageHead(t("Content"), {
        lead: t("Sites, sections and pages. A context that is assigned to a node applies to everything below it."),
        actions: html`<button class="button" @click=${() => this.add("")}>${icon("plus")}${t("New root node")}</button>`,
      })}
      <div class="content-split"><section class="card padded"><content-tree .selected=${this.node} @choose=${(/** @type {CustomEvent} */ event) => navigate(hrefOfNode(event.detail.id))}></content-tree></section>
        ${this.node ? html`<content-node .node=${this.node} @add=${(/** @type {CustomEvent} */ event) => this.add(event.detail)} @changed=${this.reloadTree}></content-node>` : html`<section class="card">${emptyState("folder-tree", t("Choose a node"), t("You will see its contexts, what it inherits, its links and its readers."))}</section>`}</div></div>`;
  }
}
customElements.define("content-page", ContentPage);
