/** The frame of all pages: navigation, the page of the current address, notices. */
import {html, nothing} from "../vendor/lit.js";
import {whenSignedOut} from "../lib/api.js";
import {LANGUAGES, getLanguage, keepLanguage, t} from "../lib/i18n.js";
import {at, matchRoute, mayLeave, navigate, startRouter} from "../lib/router.js";
import {StateObserver, allows, dismiss, getState, setState, setTheme} from "../lib/state.js";
import {ConsoleElement} from "../ui/element.js";
import {icon} from "../ui/icon.js";
import {emptyState, renderFailure, renderLoading} from "../ui/parts.js";
import {renderBrand} from "./brand.js";
import {restoreIdentity, signOut} from "./identity.js";
import {ROUTES, findRole, listNavigation} from "./routes.js";
import "./search-palette.js";
import "./sign-in.js";

/** `<console-app>` */
export class ConsoleApp extends ConsoleElement {
  static properties = {page: {state: true}, menuOpen: {state: true}};

  constructor() {
    super();
    new StateObserver(this);
    /** @type {unknown} */
    this.page = renderLoading();
    this.menuOpen = false;
    /** @type {HTMLElement | null} */
    this.element = null;
    this.shownTag = "";
  }

  connectedCallback() {
    super.connectedCallback();
    startRouter(() => this.showPage());
    whenSignedOut(() => getState().identity && setState({identity: null}));
    addEventListener("keydown", (event) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        this.openSearch();
      }
    });
    matchRoute(ROUTES)?.route.load().catch(() => {}); // beside the question who this is; showPage tells what went wrong
    restoreIdentity().then(() => this.requestUpdate(), (error) => { this.page = renderFailure(error, () => location.reload()); });
  }

  updated() {
    const signedIn = getState().identity !== null;
    if (signedIn && !this.wasSignedIn) this.showPage();
    this.wasSignedIn = signedIn;
  }
  wasSignedIn = false;

  openSearch() {
    /** @type {import("./search-palette.js").SearchPalette} */ (this.querySelector("search-palette"))?.open();
  }

  /** @returns {Promise<void>} */
  async showPage() {
    this.menuOpen = false;
    if (!getState().identity) return this.requestUpdate();
    const match = matchRoute(ROUTES);
    if (!match) return this.showNothing(t("There is no such page."));
    if (!allows(match.route.role || "chat")) {
      if (match.route.path === "/") return navigate("/playground", {replace: true}); // everybody may chat
      return this.showNothing(t("Your key's role does not include this page."));
    }
    const address = location.href;
    try {
      await match.route.load();
      if (location.href !== address) return; // somebody went on meanwhile
    } catch (error) {
      this.element = null;
      this.page = renderFailure(error, () => location.reload());
      return;
    }
    this.mount(match);
  }

  /** Reuses the page's element if it is shown already, so that its unsaved work stays. @param {import("../lib/router.js").Match} match */
  mount(match) {
    const fresh = !this.element || this.element.localName !== match.route.tag;
    if (fresh) this.element = document.createElement(match.route.tag);
    Object.assign(/** @type {any} */ (this.element), {...match.params, query: match.query});
    this.page = this.element;
    if (fresh && this.shownTag) this.announce();
    this.shownTag = match.route.tag;
    this.requestUpdate();
  }

  /** Moves the focus to the new page, as a page load would. */
  async announce() {
    await this.updateComplete;
    /** @type {HTMLElement | null} */ (this.querySelector("main"))?.focus({preventScroll: true});
  }

  /** @param {string} why */
  showNothing(why) {
    this.element = null;
    this.page = html`<div class="page">${emptyState("circle-question-mark", why)}</div>`;
  }

  render() {
    if (!getState().ready) return html`<main class="main">${this.page}</main>`;
    if (!getState().identity) return html`<sign-in></sign-in>${this.renderNotices()}`;
    return html`<a class="skip-link" href="#main" @click=${this.skip}>${t("Skip to content")}</a>
      ${this.menuOpen ? html`<button class="scrim" aria-label=${t("Close menu")} @click=${() => { this.menuOpen = false; }}></button>` : nothing}
      ${this.renderSidebar()}
      <div>
        <div class="topbar"><button class="button ghost icon-only" aria-label=${t("Menu")} aria-expanded=${String(this.menuOpen)}
            @click=${() => { this.menuOpen = !this.menuOpen; }}>${icon("menu")}</button>${renderBrand()}
          <button class="button ghost icon-only" aria-label=${t("Search")} @click=${this.openSearch}>${icon("search")}</button></div>
        <main class="main" id="main" tabindex="-1">${this.page}</main>
      </div>
      <search-palette></search-palette>${this.renderNotices()}`;
  }

  /** @param {Event} event */
  skip(event) {
    event.preventDefault();
    /** @type {HTMLElement} */ (this.querySelector("main")).focus();
  }

  /** Builds the page anew in another language. @param {any} event */
  async changeLanguage(event) {
    if (!(await mayLeave())) return this.requestUpdate();
    await keepLanguage(event.target.value);
    this.element = null;
    await this.showPage();
  }

  renderSidebar() {
    const path = location.pathname;
    const isCurrent = (/** @type {string} */ to) => (to === "/" ? path === at("/") || path === "/console" : path === at(to) || path.startsWith(at(`${to}/`)));
    return html`<aside class="sidebar" ?data-open=${this.menuOpen} @keydown=${(/** @type {KeyboardEvent} */ event) => {
        if (event.key === "Escape") this.menuOpen = false;
      }}>
      ${renderBrand()}
      <button class="button small search-button" @click=${this.openSearch}>${icon("search")}<span class="grow">${t("Search")}</span><kbd>Ctrl K</kbd></button>
      <nav aria-label=${t("Main")}>${listNavigation().map(({title, links}) => {
        const shown = links.filter(([to]) => allows(findRole(to)));
        return shown.length ? html`<div class="nav-group">${title ? html`<div class="nav-title">${title}</div>` : nothing}
          ${shown.map(([to, name, image]) => html`<a class="nav-link" href=${at(to)} aria-current=${isCurrent(to) ? "page" : nothing}>${icon(image)}${name}</a>`)}
        </div>` : nothing;
      })}</nav>
      <div class="sidebar-foot">${this.renderIdentity()}${this.renderPreferences()}</div>
    </aside>`;
  }

  renderIdentity() {
    const identity = getState().identity;
    if (!identity) return nothing;
    const roles = {admin: t("Admin"), editor: t("Editor"), chat: t("Chat")};
    return html`<div class="who"><span class="avatar" aria-hidden="true">${identity.name.slice(0, 1).toUpperCase()}</span>
      <span class="grow truncate">${identity.name}<small>${roles[identity.role]} · ${identity.workspace}</small></span>
      ${identity.anonymous ? nothing : html`<button class="button ghost small icon-only" aria-label=${t("Sign out")} @click=${signOut}>${icon("log-out")}</button>`}</div>`;
  }

  renderPreferences() {
    const themes = /** @type {const} */ ([["system", "monitor", t("System theme")], ["light", "sun", t("Light theme")], ["dark", "moon", t("Dark theme")]]);
    const {theme} = getState();
    return html`<div class="row apart preferences">
      <div class="segmented" role="group" aria-label=${t("Theme")}>${themes.map(([id, image, name]) => html`<button aria-label=${name} title=${name}
        aria-pressed=${String(theme === id)} @click=${() => setTheme(id)}>${icon(image)}</button>`)}</div>
      <select class="language" aria-label=${t("Language")} @change=${this.changeLanguage}>${Object.entries(LANGUAGES).map(([tag]) => html`<option value=${tag} ?selected=${tag === getLanguage()}>${tag.toUpperCase()}</option>`)}</select>
    </div>`;
  }

  renderNotices() {
    const icons = {good: "circle-check", bad: "circle-alert", info: "bell"};
    return html`<div class="notices" role="status" aria-live="polite">${getState().notices.map((notice) => html`<div class="toast ${notice.kind}">
      ${icon(icons[notice.kind])}<span class="grow">${notice.text}</span>
      ${notice.action ? html`<button class="button small" @click=${() => { notice.action?.run(); dismiss(notice.id); }}>${notice.action.label}</button>` : nothing}
      <button class="button ghost small icon-only" aria-label=${t("Dismiss")} @click=${() => dismiss(notice.id)}>${icon("x")}</button></div>`)}</div>`;
  }
}
customElements.define("console-app", ConsoleApp);
