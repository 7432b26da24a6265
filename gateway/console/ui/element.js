/** The base of all elements, and loading with its three outcomes. */
import {LitElement, html} from "../vendor/lit.js";
import {renderFailure, renderLoading} from "./parts.js";

/** Renders into the page itself, so that one set of style sheets, labels and ids serves all. */
export class ConsoleElement extends LitElement {
  createRenderRoot() {
    return this;
  }
}

/**
 * Loads something for its host and shows how far that is. A later run wins over an earlier one that is still under way.
 * @template T
 */
export class Loader {
  /**
   * @param {LitElement} host
   * @param {(signal: AbortSignal) => Promise<T>} fetcher
   */
  constructor(host, fetcher) {
    this.host = host;
    this.fetcher = fetcher;
    /** @type {T | undefined} */
    this.data = undefined;
    /** @type {any} */
    this.error = null;
    this.busy = false;
    /** @type {AbortController | null} */
    this.running = null;
    host.addController(this);
  }

  hostDisconnected() {
    this.running?.abort();
  }

  async run() {
    this.running?.abort();
    const running = (this.running = new AbortController());
    this.busy = true;
    this.error = null;
    this.host.requestUpdate();
    try {
      const data = await this.fetcher(running.signal);
      if (running.signal.aborted) return;
      this.data = data;
    } catch (error) {
      if (running.signal.aborted) return;
      this.error = error;
    }
    this.busy = false;
    this.host.requestUpdate();
  }

  /** @param {(data: T) => unknown} show */
  render(show) {
    if (this.error) return renderFailure(this.error, () => this.run());
    if (this.data === undefined) return this.busy ? renderLoading() : html``;
    return show(this.data);
  }
}

/**
 * Calls a function once things have been quiet for a while.
 * @template {any[]} A
 * @param {(...args: A) => void} act
 * @param {number} [ms]
 */
export function debounce(act, ms = 250) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  return (/** @type {A} */ ...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...args), ms);
  };
}
