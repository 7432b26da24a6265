/** `<knowledge-entity>`: one entity, its neighbours as a picture that can be walked, and its relationships as a list. */
import {html, nothing} from "../../vendor/lit.js";
import {call, encode, get} from "../../lib/api.js";
import {t} from "../../lib/i18n.js";
import {at, navigate} from "../../lib/router.js";
import {notify} from "../../lib/state.js";
import {confirmAction} from "../../ui/dialog.js";
import {ConsoleElement, Loader} from "../../ui/element.js";
import {icon} from "../../ui/icon.js";
import {pageHead, sourceBadge} from "../../ui/parts.js";
import {editEntity, editRelationship} from "./forms.js";
import {renderGraph} from "./graph.js";

const MAX_NEIGHBOURS = 40;

export class KnowledgeEntity extends ConsoleElement {
  static properties = {entity: {}};

  constructor() {
    super();
    this.entity = "";
    /** @type {Loader<any>} */
    this.loader = new Loader(this, (signal) => this.load(signal));
  }

  /** @param {Map<string, unknown>} changed */
  willUpdate(changed) {
    if (changed.has("entity")) this.loader.run();
  }

  /** @param {AbortSignal} signal */
  async load(signal) {
    const [{data: entity, etag}, relations] = await Promise.all([call("GET", `knowledge/entities/${encode(this.entity)}`, {signal}), get("knowledge/relationships", {entity: this.entity, take: 200}, signal)]);
    const others = [...new Set(relations.items.map((/** @type {any} */ one) => (one.from === entity.id ? one.to : one.from)))].slice(0, MAX_NEIGHBOURS);
    const found = await Promise.all(others.map((id) => get(`knowledge/entities/${encode(String(id))}`, {}, signal).catch(() => ({id, name: id, type: ""}))));
    return {entity, etag, relations: relations.items, total: relations.total, neighbours: Object.fromEntries(found.map((one) => [one.id, one]))};
  }

  /** @param {() => Promise<any>} act */
  async attempt(act) {
    try {
      await act();
      await this.loader.run();
    } catch (/** @type {any} */ error) {
      notify("bad", error.errors?.[0]?.message || error.message);
    }
  }

  /** @param {any} loaded */
  async edit({entity, etag}) {
    const body = await editEntity(entity);
    if (body) await this.attempt(() => call("PUT", `knowledge/entities/${encode(entity.id)}`, {body, etag}));
  }

  async connect() {
    const body = await editRelationship(this.entity);
    if (body) await this.attempt(() => call("POST", "knowledge/relationships", {body}));
  }

  /** @param {any} entity */
  async deleteObject(entity) {
    if (!(await confirmAction(t("Delete {name}?", {name: entity.name}), t("Its relationships are deleted, too."), {label: t("Delete"), danger: true}))) return;
    await this.attempt(async () => {
      await call("DELETE", `knowledge/entities/${encode(entity.id)}`);
      navigate("/knowledge");
    });
  }

  render() {
    return this.loader.render((loaded) => this.renderEntity(loaded));
  }

  /** @param {any} loaded */
  renderEntity(loaded) {
    const {entity, relations, neighbours} = loaded;
    const readOnly = entity.source === "file";
    return html`<div class="page">${pageHead(entity.name, {
        crumbs: [[t("Knowledge"), "/knowledge"]], badges: html`<span class="badge accent">${entity.type}</span>${sourceBadge(entity)}`, lead: html`<code>${entity.id}</code>${entity.aliases?.length ? html` · ${entity.aliases.join(", ")}` : nothing}`,
        actions: html`<button class="button" @click=${this.connect}>${icon("waypoints")}${t("Connect")}</button>${readOnly ? nothing : html`<button class="button" @click=${() => this.edit(loaded)}>${icon("pencil")}${t("Edit")}</button><button class="button danger" @click=${() => this.deleteObject(entity)}>${icon("trash")}${t("Delete")}</button>`}`,
      })}
      <div class="split"><section class="card padded">${renderGraph(entity, relations, neighbours, (id) => navigate(`/knowledge/${encode(id)}`))}</section>
        <div class="stack"><section class="card"><div class="card-head"><h2>${t("Properties")}</h2></div><div class="card-body">${Object.keys(entity.properties || {}).length ? html`<dl class="facts column">${Object.entries(entity.properties).map(([name, value]) => html`<div><dt>${name}</dt><dd>${Array.isArray(value) ? value.join(", ") : String(value)}</dd></div>`)}</dl>` : html`<p class="muted">${t("None.")}</p>`}</div></section>
          <section class="card"><div class="card-head"><h2>${t("Relationships")}</h2><span class="badge numeric">${loaded.total}</span></div><div class="card-body">${relations.length ? html`<ul class="line-list">${relations.map((/** @type {any} */ one) => this.renderRelation(one, entity, neighbours))}</ul>` : html`<p class="muted">${t("None.")}</p>`}</div></section></div></div></div>`;
  }

  /** @param {any} relation @param {any} entity @param {Record<string, any>} neighbours */
  renderRelation(relation, entity, neighbours) {
    const outgoing = relation.from === entity.id;
    const other = outgoing ? relation.to : relation.from;
    return html`<li>${icon(outgoing ? "arrow-right" : "arrow-left")}<span class="muted">${relation.type}</span><a class="grow truncate" href=${at(`/knowledge/${encode(other)}`)}>${neighbours[other]?.name || other}</a>
      ${relation.file ? nothing : html`<button class="button ghost small icon-only" aria-label=${t("Remove {name}", {name: `${relation.type} ${other}`})} @click=${() => this.attempt(() => call("DELETE", `knowledge/relationships/${encode(relation.id)}`))}>${icon("x")}</button>`}</li>`;
  }
}
customElements.define("knowledge-entity", KnowledgeEntity);
