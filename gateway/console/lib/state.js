/** What the whole console shares: who is signed in, theme, notices. Elements observe it with a `StateObserver`. */

/**
 * @typedef {{role: "chat" | "editor" | "admin", name: string, workspace: string, anonymous: boolean, features: Record<string, boolean>}} Identity
 * @typedef {{id: number, kind: "good" | "bad" | "info", text: string, action?: {label: string, run: () => void}}} Notice
 * @typedef {{identity: Identity | null, ready: boolean, theme: "system" | "light" | "dark", notices: Notice[]}} State
 */

/** @type {State} */
const state = {identity: null, ready: false, theme: readTheme(), notices: []};
const observers = new Set();
const ROLES = ["chat", "editor", "admin"];
const NOTICE_MS = 6000;
let lastNotice = 0;

/** @returns {Readonly<State>} */
export const getState = () => state;

/** @param {Partial<State>} change */
export function setState(change) {
  Object.assign(state, change);
  for (const notify of observers) notify();
}

/** Whether the caller's role is at least this one. @param {"chat" | "editor" | "admin"} role */
export function allows(role) {
  return state.identity !== null && ROLES.indexOf(state.identity.role) >= ROLES.indexOf(role);
}

/** @returns {"system" | "light" | "dark"} */
function readTheme() {
  const kept = localStorage.getItem("console.theme");
  return kept === "light" || kept === "dark" ? kept : "system";
}

/** @param {"system" | "light" | "dark"} theme */
export function setTheme(theme) {
  localStorage.setItem("console.theme", theme);
  applyTheme(theme);
  setState({theme});
}

/** @param {string} theme */
export function applyTheme(theme) {
  if (theme === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", theme);
}

/**
 * Shows a short message in the corner; it goes by itself unless it reports a failure.
 * @param {"good" | "bad" | "info"} kind
 * @param {string} text
 * @param {{label: string, run: () => void}} [action]
 */
export function notify(kind, text, action) {
  const id = ++lastNotice;
  setState({notices: [...state.notices.slice(-3), {id, kind, text, action}]});
  if (kind !== "bad") setTimeout(() => dismiss(id), NOTICE_MS);
}

/** @param {number} id */
export function dismiss(id) {
  setState({notices: state.notices.filter((notice) => notice.id !== id)});
}

/** Renders its host again whenever the state changes. */
export class StateObserver {
  /** @param {import("../vendor/lit.js").LitElement} host */
  constructor(host) {
    this.update = () => host.requestUpdate();
    host.addController(this);
  }
  hostConnected() { observers.add(this.update); }
  hostDisconnected() { observers.delete(this.update); }
}
