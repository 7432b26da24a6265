/** `<receipt-diff>`: what would be sent for the same request now, at another time, or with the drafts. */
import {html, nothing} from "../../vendor/lit.js";
import {post} from "../../lib/api.js";
import {formatNumber} from "../../lib/format.js";
import {t} from "../../lib/i18n.js";
import {ConsoleElement, Loader} from "../../ui/element.js";
import {noticeBox, segmented} from "../../ui/parts.js";
import {renderDifference} from "../../ui/request-diff.js";

export class ReceiptDiff extends ConsoleElement {
  static properties = {receipt: {attribute: false}, target: {state: true}, question: {state: true}};

  constructor() {
    super();
    /** @type {any} */
    this.receipt = null;
    this.target = "now";
    this.question = "";
    this.loader = new Loader(this, () => this.compare());
  }

  /** @param {Map<string, unknown>} changed */
  willUpdate(changed) {
    if (changed.has("receipt") && this.receipt) this.loader.run();
  }

  compare() {
    const asked = this.receipt.text ? {} : {query: this.question || "…"};
    const then = {receipt: this.receipt.id, as_of: "receipt", ...asked};
    const other = this.target === "drafts" ? {receipt: this.receipt.id, drafts: true, ...asked} : {receipt: this.receipt.id, ...asked};
    return post("diff", {from: then, to: other});
  }

  /** @param {string} target */
  choose(target) {
    this.target = target;
    this.loader.run();
  }

  render() {
    return html`<div class="stack"><div class="row">${segmented([["now", t("The policies of now")], ["drafts", t("With all drafts")]], this.target, (id) => this.choose(id), t("Compare with"))}
        ${this.receipt?.text ? nothing : html`<form class="row grow" @submit=${(/** @type {Event} */ event) => { event.preventDefault(); this.loader.run(); }}><input class="grow" aria-label=${t("Question")} placeholder=${t("The text was not kept: ask a question instead")} @input=${(/** @type {any} */ event) => { this.question = event.target.value; }}>
          <button class="button">${t("Compare")}</button></form>`}</div>
      ${this.loader.render((diff) => diff.same ? noticeBox("good", t("Exactly the same request would be sent.")) : html`<p class="soft">${t("Tokens: {a} then, {b} now", {a: formatNumber(diff.tokens.total.from), b: formatNumber(diff.tokens.total.to)})}</p>${renderDifference(diff)}`)}</div>`;
  }
}
customElements.define("receipt-diff", ReceiptDiff);
