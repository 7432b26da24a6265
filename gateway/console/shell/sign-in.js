import {html, nothing} from "../vendor/lit.js";
import {t} from "../lib/i18n.js";
import {ConsoleElement} from "../ui/element.js";
import {icon} from "../ui/icon.js";
import {renderBrand} from "./brand.js";
import {signIn} from "./identity.js";

/** `<sign-in>`: asks for a gateway key. */
export class SignIn extends ConsoleElement {
  static properties = {busy: {state: true}, error: {state: true}};

  constructor() {
    super();
    this.busy = false;
    this.error = "";
  }

  firstUpdated() {
    /** @type {HTMLElement | null} */ (this.querySelector("#key"))?.focus();
  }

  /** @param {SubmitEvent} event */
  async submit(event) {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    this.busy = true;
    this.error = "";
    try {
      await signIn(String(form.get("key")).trim(), form.get("stay") === "on");
    } catch (/** @type {any} */ error) {
      this.error = error.status === 401 ? t("The gateway does not know this key.") : error.message;
    }
    this.busy = false;
  }

  render() {
    return html`<main class="sign-in"><form class="card" @submit=${this.submit}>
      ${renderBrand()}
      <div><h1>${t("Sign in")}</h1><p class="soft">${t("Use a key of this gateway. What you see depends on its role.")}</p></div>
      <div class="field"><label for="key">${t("Gateway key")}</label>
        <input id="key" name="key" type="password" autocomplete="current-password" required placeholder="cgw_…" aria-describedby="key-fault"
          aria-invalid=${String(Boolean(this.error))}>
        <div id="key-fault" role="alert">${this.error ? html`<span class="fault">${icon("circle-alert")} ${this.error}</span>` : nothing}</div></div>
      <label class="check"><input type="checkbox" name="stay"> ${t("Stay signed in on this device")}</label>
      <button class="button primary" ?disabled=${this.busy}>${this.busy ? t("Signing in…") : t("Sign in")}</button>
    </form></main>`;
  }
}
customElements.define("sign-in", SignIn);
