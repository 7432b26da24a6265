/** `<line-chart>`: figures over time, drawn by uPlot in the colours of the theme, and as a table for screen readers. */
import {html} from "../vendor/lit.js";
import {getLanguage, t} from "../lib/i18n.js";
import {ConsoleElement} from "./element.js";

/** @typedef {{name: string, values: (number | null)[], format?: (value: number | null) => string}} Series */

export class LineChart extends ConsoleElement {
  static properties = {times: {attribute: false}, series: {attribute: false}, label: {}, height: {type: Number}, bars: {type: Boolean}};

  constructor() {
    super();
    /** @type {number[]} seconds since 1970 */
    this.times = [];
    /** @type {Series[]} */
    this.series = [];
    this.label = "";
    this.height = 190;
    this.bars = false;
    /** @type {any} */
    this.plot = null;
    this.sizes = new ResizeObserver(() => this.resize());
    this.theme = new MutationObserver(() => this.draw());
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.redraw = () => this.draw();
  }

  connectedCallback() {
    super.connectedCallback();
    this.theme.observe(document.documentElement, {attributes: true, attributeFilter: ["data-theme"]});
    this.scheme.addEventListener("change", this.redraw);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this.theme.disconnect();
    this.sizes.disconnect();
    this.scheme.removeEventListener("change", this.redraw);
    this.plot?.destroy();
    this.plot = null;
  }

  updated() {
    this.draw();
  }

  resize() {
    const width = this.clientWidth;
    if (this.plot && width && Math.abs(width - this.plot.width) > 1) this.plot.setSize({width, height: this.height});
  }

  async draw() {
    const {default: UPlot} = await import("../vendor/uplot.js");
    const place = this.querySelector(".chart");
    if (!place || !this.isConnected || !this.times.length) return;
    this.plot?.destroy();
    this.plot = new UPlot(this.describe(UPlot), [this.times, ...this.series.map((one) => one.values)], place);
    this.sizes.observe(this);
  }

  /** @param {any} UPlot */
  describe(UPlot) {
    const color = (/** @type {string} */ name) => resolveColor(this, name);
    const ink = color("--ink-3"), line = color("--line");
    const axis = {stroke: ink, grid: {stroke: line, width: 1}, ticks: {show: false}, font: "11px Inter, sans-serif", gap: 6};
    return {
      width: this.clientWidth || 400, height: this.height, legend: {show: false}, padding: [10, 18, 0, 0],
      cursor: {points: {size: 7}, drag: {x: false, y: false}},
      scales: {y: {range: (/** @type {any} */ _, /** @type {number} */ low, /** @type {number} */ high) => [Math.min(0, low ?? 0), (high || 1) * 1.1]}},
      axes: [{...axis, grid: {show: false}, size: 30, values: formatTimes}, {...axis, size: 52, values: (/** @type {any} */ _, /** @type {number[]} */ ticks) => ticks.map((tick) => (this.series[0].format || formatTick)(tick))}],
      series: [{}, ...this.series.map((one, index) => {
        const stroke = color(`--chart-${index + 1}`);
        const paths = this.bars ? UPlot.paths.bars({size: [0.7, 28], radius: 0.25}) : UPlot.paths.spline();
        return {label: one.name, stroke, width: this.bars ? 0 : 2, fill: this.bars ? stroke : withAlpha(stroke, 0.1), paths, points: {show: one.values.filter((value) => value !== null).length < 3, size: 7, fill: stroke}};
      })],
      hooks: {setCursor: [(/** @type {any} */ plot) => this.showValues(plot.cursor.idx)]},
    };
  }

  /** @param {number | null} index */
  showValues(index) {
    const place = this.querySelector(".chart-values");
    if (!place) return;
    place.textContent = index === null || index === undefined ? "" :
      [formatMoment(this.times[index]), ...this.series.map((one) => `${one.name} ${(one.format || String)(one.values[index])}`)].join(" · ");
  }

  render() {
    return html`<div class="row apart chart-caption"><span class="legend">${this.series.length > 1 ? this.series.map((one, index) =>
        html`<span><i class="c${index + 1}"></i>${one.name}</span>`) : ""}</span><span class="chart-values muted numeric" aria-hidden="true"></span></div>
      <div class="chart" aria-hidden="true"></div>
      <table class="visually-hidden"><caption>${this.label}</caption>
        <thead><tr><th scope="col">${t("Time")}</th>${this.series.map((one) => html`<th scope="col">${one.name}</th>`)}</tr></thead>
        <tbody>${this.times.slice(-48).map((time, index) => html`<tr><th scope="row">${formatMoment(time)}</th>
          ${this.series.map((one) => html`<td>${(one.format || String)(one.values.slice(-48)[index])}</td>`)}</tr>`)}</tbody></table>`;
  }
}
customElements.define("line-chart", LineChart);

/** The colour that a variable has here: the canvas does not know variables. @param {HTMLElement} host @param {string} name */
function resolveColor(host, name) {
  host.style.setProperty("color", `var(${name})`);
  const found = getComputedStyle(host).color;
  host.style.removeProperty("color");
  return found;
}

/** @param {string} color @param {number} alpha */
const withAlpha = (color, alpha) => color.replace(/^rgb\((.*)\)$/, (_, parts) => `rgba(${parts.includes(",") ? parts : parts.split(" ").join(",")},${alpha})`);

/** @param {number} value */
const formatTick = (value) => new Intl.NumberFormat(getLanguage(), {notation: "compact", maximumFractionDigits: 1}).format(value);

/** @param {number} seconds */
const formatMoment = (seconds) => new Date(seconds * 1000).toLocaleString(getLanguage(), {month: "short", day: "numeric", hour: "2-digit", minute: "2-digit"});

/** @param {any} _ @param {number[]} ticks @param {number} __ @param {number} ___ @param {number} step */
function formatTimes(_, ticks, __, ___, step) {
  const options = /** @type {Intl.DateTimeFormatOptions} */ (step >= 86400 ? {month: "short", day: "numeric"} : {hour: "numeric"});
  return ticks.map((tick) => new Date(tick * 1000).toLocaleString(getLanguage(), options));
}
