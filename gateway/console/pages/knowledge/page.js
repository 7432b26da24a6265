/** The knowledge graph: entities, what connects them, and the axioms of their types. */
import {html, nothing} from "../../vendor/lit.js";
import {call, encode, get} from "../../lib/api.js";
import {t} from "../../lib/i18n.js";
import {at, navigate} from "../../lib/router.js";
import {notify} from "../../lib/state.js";
import {ConsoleElement, debounce} from "../../ui/element.js";
import {icon} from "../../ui/icon.js";
import {emptyState, pageHead, searchField, sourceBadge, tabList} from "../../ui/parts.js";
import "../../ui/virtual-list.js";
import "./axioms.js";
import "./entity.js";
import {editEntity} from "./forms.js";

export class KnowledgePage extends ConsoleElement {
  static properties = {entity: {}, tab: {state: true}, filter: {state: true}};

  constructor() {
    super();
    this.entity = "";
    this.tab = "entities";
    this.filter = "";
    this.fetchPage = this.makeFetch();
    this.search = debounce((/** @type {string} */ text) => { this.filter = text; this.fetchPage = this.makeFetch(); this.requestUpdate(); });
  }

  /** @param {Map<string, unknown>} changed */
  willUpdate(changed) {
    if (changed.has("entity") && !this.entity) this.fetchPage = this.makeFetch();
  }

  makeFetch() {
    const filter = this.filter;
    return (/** @type {number} */ skip, /** @type {number} */ take) => get("knowledge/entities", {skip, take, filter});
  }

  async create() {
    const body = await editEntity(null);
    if (!body) return;
    try {
      await call("POST", "knowledge/entities", {body});
      navigate(`/knowledge/${encode(body.id)}`);
    } catch (/** @type {any} */ error) {
      notify("bad", error.errors?.[0]?.message || error.message);
    }
  }

  render() {
    if (this.entity) return html`<div class="page"><knowledge-entity .entity=${this.entity}></knowledge-entity></div>`;
    return html`<div class="page">${pageHead(t("Knowledge"), {lead: t("Things and people with their properties, how they are connected, and rules about their types."), actions: html`<button class="button primary" @click=${this.create}>${icon("plus")}${t("New entity")}</button>`})}
      ${tabList([["entities", t("Entities")], ["axioms", t("Axioms")]], this.tab, (id) => { this.tab = id; }, t("Knowledge"))}
      <div role="tabpanel" aria-labelledby="tab-${this.tab}">${this.tab === "axioms" ? html`<axiom-list></axiom-list>` : this.renderEntities()}</div></div>`;
  }

  renderEntities() {
    /** @type {import("../../ui/virtual-list.js").Column[]} */
    const columns = [
      {title: t("Name"), width: "minmax(0, 1.4fr)", cell: (one) => html`${one.name}<span class="sub">${one.id}</span>`}, {title: t("Type"), width: "minmax(0, 1fr)", cell: (one) => html`<span class="badge accent">${one.type}</span>`},
      {title: t("Properties"), width: "minmax(0, 2fr)", className: "wide-only", cell: (one) => html`<span class="muted">${Object.entries(one.properties || {}).map(([name, value]) => `${name}: ${value}`).join(" · ")}</span>`},
      {title: t("State"), width: "90px", className: "wide-only", cell: (one) => sourceBadge(one)},
    ];
    return html`<div class="stack"><div class="toolbar">${searchField(t("Filter"), this.filter, this.search)}</div>
      <virtual-list .label=${t("Entities")} .fetchPage=${this.fetchPage} .rowHeight=${56} .href=${(/** @type {any} */ one) => at(`/knowledge/${encode(one.id)}`)} .columns=${columns}
        .empty=${html`<div class="card">${emptyState("waypoints", this.filter ? t("Nothing matches.") : t("No entities yet"), this.filter ? nothing : t("Add products, people, places or terms that the model should know about."))}</div>`}></virtual-list></div>`;
  }
}
customElements.define("knowledge-page", KnowledgePage);
