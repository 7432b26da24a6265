/** Dialogs on top of the page: the browser's own element keeps the focus inside and closes on Escape. */
import {html, nothing} from "../vendor/lit.js";
import {t} from "../lib/i18n.js";
import {ConsoleElement} from "./element.js";
import {icon} from "./icon.js";

/** `<modal-dialog>`: a title, a body and a footer as template functions; `open()` resolves when it closes. */
export class ModalDialog extends ConsoleElement {
  static properties = {
    heading: {}, body: {attribute: false}, footer: {attribute: false}, wide: {type: Boolean}, side: {type: Boolean},
  };

  constructor() {
    super();
    this.heading = "";
    /** @type {(close: (value?: any) => void) => unknown} */
    this.body = () => nothing;
    /** @type {((close: (value?: any) => void) => unknown) | null} */
    this.footer = null;
    this.wide = false;
    this.side = false;
    /** @type {(value: any) => void} */
    this.settle = () => {};
    this.close = this.close.bind(this);
  }

  /** @returns {Promise<any>} what `close` was called with */
  async open() {
    await this.updateComplete;
    const dialog = /** @type {HTMLDialogElement} */ (this.querySelector("dialog"));
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    dialog.showModal();
    return new Promise((resolve) => {
      this.settle = (value) => {
        resolve(value);
        before?.focus?.();
      };
    });
  }

  /** @param {any} [value] */
  close(value) {
    /** @type {HTMLDialogElement | null} */ (this.querySelector("dialog"))?.close();
    this.settle(value);
  }

  render() {
    return html`<dialog class=${this.side ? "dialog side" : this.wide ? "dialog wide" : "dialog"} aria-label=${this.heading}
        @close=${() => this.settle(undefined)}
        @click=${(/** @type {MouseEvent} */ event) => event.target === event.currentTarget && this.close()}>
      <div class="dialog-inner" @click=${(/** @type {any} */ event) => event.target.closest("a[href^='/console']") && this.close()}>
        <header><h2>${this.heading}</h2>
          <button class="button ghost icon-only small" aria-label=${t("Close")} @click=${() => this.close()}>${icon("x")}</button></header>
        <div class="dialog-body">${this.body(this.close)}</div>
        ${this.footer ? html`<footer>${this.footer(this.close)}</footer>` : nothing}
      </div></dialog>`;
  }
}
customElements.define("modal-dialog", ModalDialog);

/**
 * Shows a dialog and resolves with what it was closed with; `update` in the options renders it again.
 * @param {{heading: string, body: (close: (value?: any) => void, update: () => void) => unknown, footer?: (close: (value?: any) => void, update: () => void) => unknown, wide?: boolean, side?: boolean}} options
 */
export async function showDialog({heading, body, footer, wide = false, side = false}) {
  const dialog = new ModalDialog();
  const update = () => dialog.requestUpdate();
  Object.assign(dialog, {heading, wide, side});
  dialog.body = (close) => body(close, update);
  dialog.footer = footer ? (close) => footer(close, update) : null;
  document.body.append(dialog);
  try {
    return await dialog.open();
  } finally {
    dialog.remove();
  }
}

/**
 * @param {string} heading
 * @param {unknown} text
 * @param {{label?: string, danger?: boolean}} [options]
 * @returns {Promise<boolean>}
 */
export async function confirmAction(heading, text, {label = t("Continue"), danger = false} = {}) {
  const answer = await showDialog({
    heading,
    body: () => html`<p class="soft">${text}</p>`,
    footer: (close) => html`<button class="button" @click=${() => close(false)}>${t("Cancel")}</button>
      <button class="button ${danger ? "danger" : "primary"}" autofocus @click=${() => close(true)}>${label}</button>`,
  });
  return answer === true;
}
