/** `<axiom-list>`: rules about types of entities. */
import {html, nothing} from "../../vendor/lit.js";
import {call, encode, get} from "../../lib/api.js";
import {t} from "../../lib/i18n.js";
import {notify} from "../../lib/state.js";
import {confirmAction} from "../../ui/dialog.js";
import {ConsoleElement, Loader} from "../../ui/element.js";
import {icon} from "../../ui/icon.js";
import {emptyState, sourceBadge} from "../../ui/parts.js";
import {editAxiom} from "./forms.js";

export class AxiomList extends ConsoleElement {
  constructor() {
    super();
    this.loader = new Loader(this, (signal) => get("knowledge/axioms", {take: 1000}, signal));
  }

  connectedCallback() {
    super.connectedCallback();
    this.loader.run();
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

  /** @param {any} axiom */
  async edit(axiom) {
    const body = await editAxiom(axiom);
    if (body) await this.attempt(() => (axiom ? call("PUT", `knowledge/axioms/${encode(axiom.id)}`, {body}) : call("POST", "knowledge/axioms", {body})));
  }

  /** @param {any} axiom */
  async deleteObject(axiom) {
    if (await confirmAction(t("Delete {name}?", {name: axiom.id}), axiom.text, {label: t("Delete"), danger: true})) await this.attempt(() => call("DELETE", `knowledge/axioms/${encode(axiom.id)}`));
  }

  render() {
    const add = html`<button class="button" @click=${() => this.edit(null)}>${icon("plus")}${t("New axiom")}</button>`;
    return this.loader.render(({items}) => items.length ? html`<div class="stack"><section class="card padded"><ul class="line-list">${items.map((/** @type {any} */ one) => html`<li><span class="row">${one.types.map((/** @type {string} */ type) => html`<span class="badge accent">${type}</span>`)}</span><span class="grow">${one.text}</span>${sourceBadge(one)}
        ${one.source === "file" ? nothing : html`<button class="button small" @click=${() => this.edit(one)}>${t("Edit")}</button><button class="button small danger" @click=${() => this.deleteObject(one)}>${t("Delete")}</button>`}</li>`)}</ul></section><div>${add}</div></div>`
      : html`<div class="card">${emptyState("scale", t("No axioms yet"), t("A rule that holds for every entity of a type, such as: products are never compared by price."), add)}</div>`);
  }
}
customElements.define("axiom-list", AxiomList);
