/** All contexts, with search and where they come from. */
import {html, nothing} from "../../vendor/lit.js";
import {call, get} from "../../lib/api.js";
import {formatAge} from "../../lib/format.js";
import {t} from "../../lib/i18n.js";
import {at, navigate} from "../../lib/router.js";
import {notify} from "../../lib/state.js";
import {ConsoleElement, debounce} from "../../ui/element.js";
import {icon} from "../../ui/icon.js";
import {askForName} from "../../ui/name-dialog.js";
import {emptyState, pageHead, searchField, sourceBadge} from "../../ui/parts.js";
import "../../ui/virtual-list.js";
import {renderUses} from "./uses.js";

const MOST_WANTED = 60; // rows that scrolled past long ago are asked for when they come back

export class ContextsPage extends ConsoleElement {
  static properties = {filter: {state: true}};

  constructor() {
    super();
    this.filter = "";
    /** @type {Record<string, {items: any[], total: number} | undefined>} what uses a context, by its alias */
    this.uses = {};
    /** @type {Set<string>} */
    this.wanted = new Set();
    this.loadSoon = debounce(() => this.loadUses(), 0);
    this.search = debounce((/** @type {string} */ text) => { this.filter = text; this.fetchPage = this.makeFetch(); this.requestUpdate(); });
    this.fetchPage = this.makeFetch();
  }

  makeFetch() {
    const filter = this.filter;
    return (/** @type {number} */ skip, /** @type {number} */ take) => get("contexts", {skip, take, filter, brief: true});
  }

  /** What uses a context; asked for when its row comes into view, with all others in view. @param {string} alias */
  usesOf(alias) {
    if (!(alias in this.uses)) {
      this.wanted.add(alias);
      this.loadSoon();
    }
    return this.uses[alias];
  }

  async loadUses() {
    const aliases = [...this.wanted].slice(-MOST_WANTED);
    this.wanted.clear();
    if (!aliases.length || !this.isConnected) return;
    for (const alias of aliases) this.uses[alias] = undefined; // asked for
    const {items} = await get("usage", {contexts: aliases.join(",")}).catch(() => ({items: []}));
    for (const {context, first, total} of items) this.uses[context] = {items: first, total};
    /** @type {import("../../ui/virtual-list.js").VirtualList | null} */ (this.querySelector("virtual-list"))?.requestUpdate();
  }

  async create() {
    const chosen = await askForName(t("New context"), t("For example: Corporate brand voice"));
    if (!chosen) return;
    try {
      await call("POST", "contexts", {body: {...chosen, resources: []}});
      navigate(`/contexts/${encodeURIComponent(chosen.alias)}`);
    } catch (/** @type {any} */ error) {
      notify("bad", error.message);
    }
  }

  render() {
    return html`<div class="page">
      ${pageHead(t("Contexts"), {
        lead: t("Bundles of guidance and reference material. Assign them to agents, profiles, prompts or content."),
        actions: html`<button class="button primary" @click=${this.create}>${icon("plus")}${t("New context")}</button>`,
      })}
      <div class="toolbar">${searchField(t("Filter contexts"), this.filter, this.search)}</div>
      <virtual-list .label=${t("Contexts")} .fetchPage=${this.fetchPage} .rowHeight=${60} .href=${hrefOf} .columns=${this.listColumns()}
        .empty=${html`<div class="card">${emptyState("layers", this.filter ? t("No context matches.") : t("No contexts yet"),
          this.filter ? nothing : t("A context holds your brand voice, rules, glossaries and documents. Create the first one."))}</div>`}></virtual-list>
    </div>`;
  }

  /** @returns {import("../../ui/virtual-list.js").Column[]} */
  listColumns() {
    return [
      {title: t("Name"), width: "minmax(0, 2fr)", cell: (context) => html`${context.name || context.alias}<span class="sub">${context.alias}</span>`},
      {title: t("Resources"), width: "minmax(0, 2fr)", className: "wide-only", cell: (context) => html`${t("{n} resource|{n} resources", {n: context.resource_count})}
        <span class="sub">${context.resources.slice(0, 4).map((/** @type {any} */ resource) => resource.name || resource.id).join(", ")}</span>`},
      {title: t("Used by"), width: "minmax(0, 1.4fr)", className: "wide-only", cell: (context) => renderUses(this.usesOf(context.alias))},
      {title: t("State"), width: "150px", cell: (context) => html`<span class="row tight-row">
        ${context.default ? html`<span class="badge accent">${icon("star")}${t("Default")}</span>` : nothing}${context.draft ? html`<span class="badge warn">${t("Draft")}</span>` : nothing}${sourceBadge(context)}
        ${context.source === "store" && !context.default && !context.draft ? html`<span class="muted">${formatAge(context.updated_at)}</span>` : nothing}</span>`},
    ];
  }
}
customElements.define("contexts-page", ContextsPage);

/** @param {any} context */
const hrefOf = (context) => at(`/contexts/${encodeURIComponent(context.alias)}`);
