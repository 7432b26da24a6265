/** Which rows of a long list are in view: rows of one height in an element that is as high as all of them. */

const MARGIN = 8; // rows beyond what is in view

export class RowWindow {
  /**
   * @param {import("../vendor/lit.js").LitElement} host
   * @param {string} body the element with the rows
   * @param {() => {count: number, height: number}} measure how many rows there are, and the height of one
   * @param {() => void} [looked] what is done after every look
   */
  constructor(host, body, measure, looked = () => {}) {
    this.host = host;
    this.body = body;
    this.measure = measure;
    this.looked = looked;
    this.first = 0;
    this.visible = 20;
    this.look = this.look.bind(this);
    host.addController(this);
  }

  hostConnected() {
    addEventListener("scroll", this.look, {passive: true});
    addEventListener("resize", this.look);
  }

  hostDisconnected() {
    removeEventListener("scroll", this.look);
    removeEventListener("resize", this.look);
  }

  hostUpdated() {
    this.look();
  }

  look() {
    const body = this.host.querySelector(this.body);
    const {count, height} = this.measure();
    if (!body || !count) return;
    const first = Math.max(0, Math.min(Math.floor(-body.getBoundingClientRect().top / height) - MARGIN, count - 1));
    const visible = Math.ceil(innerHeight / height) + 2 * MARGIN;
    if (first !== this.first || visible !== this.visible) {
      this.first = first;
      this.visible = visible;
      this.host.requestUpdate();
    }
    this.looked();
  }

  /** The indexes of the rows in view. */
  list() {
    const {count} = this.measure();
    return Array.from({length: Math.max(0, Math.min(count - this.first, this.visible))}, (_, offset) => this.first + offset);
  }

  /** Scrolls to a row unless it is well in view. @param {number} index */
  reveal(index) {
    const {height} = this.measure();
    const body = /** @type {HTMLElement} */ (this.host.querySelector(this.body));
    const y = body.getBoundingClientRect().top + index * height;
    if (y < 60 || y > innerHeight - height * 2) scrollBy({top: y - innerHeight / 2});
    this.look();
  }
}
