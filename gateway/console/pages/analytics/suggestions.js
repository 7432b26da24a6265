/** `<usage-suggestions>`: what the figures suggest to change, and a button that does it. */
import {html, nothing} from "../../vendor/lit.js";
import {call, get} from "../../lib/api.js";
import {t} from "../../lib/i18n.js";
import {at} from "../../lib/router.js";
import {notify} from "../../lib/state.js";
import {confirmAction} from "../../ui/dialog.js";
import {ConsoleElement, Loader} from "../../ui/element.js";
import {icon} from "../../ui/icon.js";
import {emptyState} from "../../ui/parts.js";

export class UsageSuggestions extends ConsoleElement {
  constructor() {
    super();
    this.loader = new Loader(this, (signal) => get("stats/suggestions", {take: 200}, signal));
  }

  connectedCallback() {
    super.connectedCallback();
    this.loader.run();
  }

  /** @param {any} suggestion */
  async apply({change, resource}) {
    const text = change.method === "DELETE" ? t("This deletes {name}.", {name: resource}) : t("This changes {name}: {change}", {name: resource, change: JSON.stringify(change.merge)});
    if (!(await confirmAction(t("Apply the suggestion?"), text, {label: t("Apply"), danger: change.method === "DELETE"}))) return;
    const path = change.path.replace(/^\/api\/v1\//, "");
    try {
      if (change.method === "DELETE") await call("DELETE", path);
      else {
        const {data, etag} = await call("GET", path);
        await call("PUT", path, {body: mergeDeep(data, change.merge), etag});
      }
      notify("good", t("Applied."));
      await this.loader.run();
    } catch (/** @type {any} */ error) {
      notify("bad", error.message);
    }
  }

  render() {
    return this.loader.render(({items}) => items.length ? html`<div class="stack">${items.map((/** @type {any} */ one) => this.renderSuggestion(one))}</div>`
      : html`<div class="card">${emptyState("sparkles", t("Nothing to suggest"), t("Either all is well, or there are too few requests to tell."))}</div>`);
  }

  /** @param {any} suggestion */
  renderSuggestion(suggestion) {
    const {change} = suggestion;
    const act = change.method === "DELETE" ? t("Delete") : t("Apply");
    const open = html`<a class="button small" href=${at(`/contexts/${suggestion.resource}`)}>${icon("pencil")}${t("Open")}</a>`;
    return html`<section class="card padded row"><span class="type-icon">${icon("sparkles")}</span><div class="grow"><a href=${at(`/contexts/${suggestion.resource}`)}><strong>${suggestion.resource}</strong></a><p class="soft">${suggestion.reason}</p>
        <p class="hint numeric">${Object.entries(suggestion.figures).map(([name, value]) => `${name} ${value}`).join(" · ")}</p></div>
      ${change.read_only ? html`<span class="badge outline">${icon("lock")}${t("File")}</span>${open}` : change.asks?.length ? open : html`<button class="button small primary" @click=${() => this.apply(suggestion)}>${icon("check")}${act}</button>`}${nothing}</section>`;
  }
}
customElements.define("usage-suggestions", UsageSuggestions);

/** @param {any} base @param {any} change @returns {any} */
function mergeDeep(base, change) {
  const isObject = (/** @type {any} */ value) => value && typeof value === "object" && !Array.isArray(value);
  if (!isObject(base) || !isObject(change)) return change;
  return {...base, ...Object.fromEntries(Object.entries(change).map(([name, value]) => [name, mergeDeep(base[name], value)]))};
}
