/** Addresses below `/console`: which page they show, and what has to be asked before one is left. */

const PREFIX = "/console";

/**
 * @typedef {{path: string, tag: string, load: () => Promise<unknown>, role?: "chat" | "editor" | "admin"}} Route
 * @typedef {{route: Route, params: Record<string, string>, query: URLSearchParams}} Match
 */

/** @type {{ask: () => boolean | Promise<boolean>, within: string} | null} */
let guard = null;
/** @type {() => void} */
let changed = () => {};
let current = location.pathname + location.search;

/** A link's address. @param {string} path */
export const at = (path) => `${PREFIX}${path}`;

/**
 * A page that has unsaved work says here whether it may be left; addresses within its own are not asked about.
 * @param {(() => boolean | Promise<boolean>) | null} ask
 * @param {string} [within]
 */
export function setGuard(ask, within = "") {
  guard = ask ? {ask, within} : null;
}

/** Whether the current page may be left; asks if it has unsaved work. @param {string} [path] */
export async function mayLeave(path = "") {
  if (!guard || (guard.within && (path === guard.within || path.startsWith(`${guard.within}/`)))) return true;
  if (!(await guard.ask())) return false;
  guard = null;
  return true;
}

/**
 * @param {string} path
 * @param {{replace?: boolean, force?: boolean}} [options] force: ask nothing
 */
export async function navigate(path, options = {}) {
  const target = at(path);
  if (options.force) guard = null;
  if (!(await mayLeave(path))) return;
  history[options.replace ? "replaceState" : "pushState"](null, "", target);
  current = location.pathname + location.search;
  changed();
  if (!options.replace) scrollTo(0, 0);
}

/** Changes the address without leaving the page, such as for a filter. @param {string} path */
export function replaceAddress(path) {
  history.replaceState(null, "", at(path));
  current = location.pathname + location.search;
}

/** @param {() => void} listener */
export function startRouter(listener) {
  changed = listener;
  addEventListener("popstate", async () => {
    if (!(await mayLeave(location.pathname.slice(PREFIX.length)))) return history.pushState(null, "", current);
    current = location.pathname + location.search;
    changed();
  });
  addEventListener("beforeunload", (event) => {
    if (guard) event.preventDefault();
  });
  document.addEventListener("click", followLink);
}

/** @param {MouseEvent} event */
function followLink(event) {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const link = /** @type {Element} */ (event.target).closest?.("a[href]");
  if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download")) return;
  if (link.origin !== location.origin || !link.pathname.startsWith(PREFIX)) return;
  event.preventDefault();
  navigate(link.pathname.slice(PREFIX.length) + link.search);
}

/**
 * The route of the current address; null if there is none.
 * @param {Route[]} routes
 * @returns {Match | null}
 */
export function matchRoute(routes) {
  const parts = location.pathname.slice(PREFIX.length).split("/").filter(Boolean);
  for (const route of routes) {
    const params = matchPath(route.path.split("/").filter(Boolean), parts);
    if (params) return {route, params, query: new URLSearchParams(location.search)};
  }
  return null;
}

/**
 * @param {string[]} pattern
 * @param {string[]} parts
 */
function matchPath(pattern, parts) {
  /** @type {Record<string, string>} */
  const params = {};
  if (pattern.length < parts.length) return null;
  for (const [index, name] of pattern.entries()) {
    const optional = name.endsWith("?");
    const part = parts[index];
    if (part === undefined && !optional) return null;
    if (name.startsWith(":")) params[name.replace(/[:?]/g, "")] = part === undefined ? "" : decodeURIComponent(part);
    else if (name !== part) return null;
  }
  return params;
}
