/** A streaming chat through the gateway, with everything a request can name, and View Context on every answer. */
import {html, nothing} from "../../vendor/lit.js";
import {get, getAll} from "../../lib/api.js";
import {streamChat} from "../../lib/chat.js";
import {t} from "../../lib/i18n.js";
import {allows, notify} from "../../lib/state.js";
import {ConsoleElement} from "../../ui/element.js";
import {icon} from "../../ui/icon.js";
import {renderMarkdown} from "../../ui/markdown.js";
import {emptyState, pageHead} from "../../ui/parts.js";
import {showContext} from "./show-context.js";

/** @typedef {{role: "user" | "assistant", text: string, receipt?: string | null, context?: any, degraded?: string, error?: string, question?: string}} Message */

const FIELDS = ["agent", "profile", "prompt", "content", "task", "session", "language"];

export class PlaygroundPage extends ConsoleElement {
  static properties = {query: {attribute: false}, messages: {state: true}, settings: {state: true}, choices: {state: true}, busy: {state: true}};

  constructor() {
    super();
    /** @type {URLSearchParams} */
    this.query = new URLSearchParams();
    /** @type {Message[]} */
    this.messages = [];
    /** @type {Record<string, string>} */
    this.settings = {};
    /** @type {Record<string, any[]>} */
    this.choices = {agents: [], profiles: [], prompts: [], models: [], nodes: []};
    /** @type {AbortController | null} */
    this.busy = null;
  }

  connectedCallback() {
    super.connectedCallback();
    this.settings = {session: `console-${Math.random().toString(36).slice(2, 8)}`, ...Object.fromEntries(this.query)};
    this.loadChoices();
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this.busy?.abort();
  }

  async loadChoices() {
    const editor = allows("editor");
    const list = (/** @type {string} */ path) => (editor ? getAll(path).catch(() => []) : Promise.resolve([]));
    const [agents, profiles, prompts, models, nodes] = await Promise.all([
      list("agents"), list("profiles"), list("prompts"), get("/v1/models").then((reply) => reply.data, () => []), editor ? get("content", {take: 200}).then((page) => page.items, () => []) : [],
    ]);
    const virtual = models.filter((/** @type {any} */ model) => model.id.startsWith("agent:")).map((/** @type {any} */ model) => ({alias: model.id.slice(6)}));
    this.choices = {agents: agents.length ? agents : virtual, profiles, prompts, nodes, models: models.filter((/** @type {any} */ model) => !model.id.startsWith("agent:"))};
    if (!this.settings.model && this.choices.models.length === 1) this.settings = {...this.settings, model: this.choices.models[0].id};
  }

  buildContext() {
    /** @type {Record<string, any>} */
    const context = {};
    for (const name of FIELDS) if (this.settings[name]) context[name] = this.settings[name];
    if (this.settings.vars) context.vars = Object.fromEntries(this.settings.vars.split("\n").filter((line) => line.includes("=")).map((line) => [line.slice(0, line.indexOf("=")).trim(), line.slice(line.indexOf("=") + 1).trim()]));
    return context;
  }

  /** @param {Event} event */
  async submit(event) {
    event.preventDefault();
    const input = /** @type {HTMLTextAreaElement} */ (this.querySelector("#message"));
    const text = input.value.trim();
    if (!text || this.busy) return;
    input.value = "";
    await this.ask(text);
    input.focus();
  }

  /** @param {string} text */
  async ask(text) {
    const context = this.buildContext();
    const history = [...this.messages, {role: /** @type {const} */ ("user"), text}];
    /** @type {Message} */
    const answer = {role: "assistant", text: "", context, question: text};
    this.messages = [...history, answer];
    this.busy = new AbortController();
    const messages = history.filter((one) => one.text).map((one) => ({role: one.role, content: one.text}));
    try {
      const {receipt, headers} = await streamChat({model: this.settings.model || "", messages, context}, (piece) => {
        answer.text += piece;
        this.show();
      }, this.busy.signal);
      answer.receipt = receipt;
      answer.degraded = headers.get("x-context-degraded") || "";
    } catch (/** @type {any} */ error) {
      if (error.name !== "AbortError") answer.error = error.message;
    }
    this.busy = null;
    this.show();
  }

  show() {
    this.messages = [...this.messages];
    this.updateComplete.then(() => this.querySelector(".chat-log")?.lastElementChild?.scrollIntoView({block: "end"}));
  }

  /** @param {Message} message */
  async view(message) {
    try {
      await showContext(message, this.messages, this.settings.model || "");
    } catch (/** @type {any} */ error) {
      notify("bad", error.message);
    }
  }

  render() {
    return html`<div class="page">${pageHead(t("Playground"), {
        lead: t("Ask as a client would, and see what the model was told."),
        actions: html`<button class="button" ?disabled=${!this.messages.length} @click=${() => { this.messages = []; }}>${icon("plus")}${t("New conversation")}</button>`,
      })}
      <div class="playground">${this.renderSettings()}<section class="card chat" aria-label=${t("Conversation")}>
        <div class="chat-log" role="log" aria-live="polite" tabindex="0" aria-label=${t("Messages")}>${this.messages.length ? this.messages.map((message) => this.renderMessage(message))
          : emptyState("message-square-text", t("Ask something"), t("Choose an agent or content beside, then write a question below."))}</div>
        <form class="chat-form" @submit=${this.submit}><textarea id="message" rows="2" aria-label=${t("Message")} placeholder=${t("Write a message…")} @keydown=${(/** @type {KeyboardEvent} */ event) => {
          if (event.key === "Enter" && !event.shiftKey && !event.isComposing) this.submit(event);
        }}></textarea>
          ${this.busy ? html`<button type="button" class="button" @click=${() => this.busy?.abort()}>${icon("square")}${t("Stop")}</button>` : html`<button class="button primary">${icon("send")}${t("Send")}</button>`}</form></section></div></div>`;
  }

  /** @param {Message} message */
  renderMessage(message) {
    if (message.role === "user") return html`<div class="bubble user"><span class="visually-hidden">${t("You")}: </span>${message.text}</div>`;
    return html`<div class="bubble assistant"><span class="visually-hidden">${t("Answer")}: </span>${message.text ? renderMarkdown(message.text) : message.error ? nothing : html`<span class="muted">…</span>`}
      ${message.error ? html`<p class="fault">${icon("circle-alert")} ${message.error}</p>` : nothing}
      ${message.receipt ? html`<div class="row"><button class="button small" @click=${() => this.view(message)}>${icon("eye")}${t("View Context")}</button>
        ${message.degraded ? html`<span class="badge warn">${t("degraded: {what}", {what: message.degraded})}</span>` : nothing}</div>` : nothing}</div>`;
  }

  renderSettings() {
    const set = (/** @type {string} */ name) => (/** @type {any} */ event) => { this.settings = {...this.settings, [name]: event.target.value}; };
    const select = (/** @type {string} */ name, /** @type {string} */ label, /** @type {any[]} */ items) => html`<div class="field"><label for="set-${name}">${label}</label><select id="set-${name}" @change=${set(name)}>
      <option value="">–</option>${items.map((item) => html`<option value=${item.alias ?? item.id} ?selected=${(item.alias ?? item.id) === this.settings[name]}>${item.name || item.alias || item.id}</option>`)}</select></div>`;
    const text = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string} */ list = "") => html`<div class="field"><label for="set-${name}">${label}</label><input id="set-${name}" list=${list || nothing} autocomplete="off" .value=${this.settings[name] || ""} @input=${set(name)}></div>`;
    return html`<section class="card padded stack playground-settings" aria-label=${t("Request")}>
      ${select("agent", t("Agent"), this.choices.agents)}${text("content", t("Content"), "nodes")}
      <datalist id="nodes">${this.choices.nodes.map((node) => html`<option value=${node.path}>${node.title}</option>`)}</datalist>
      ${select("model", t("Model"), this.choices.models)}
      <details class="plain"><summary>${t("More")}</summary><div class="stack">${this.choices.profiles.length ? select("profile", t("Profile"), this.choices.profiles) : nothing}${this.choices.prompts.length ? select("prompt", t("Prompt"), this.choices.prompts) : nothing}
        <div class="field"><label for="set-vars">${t("Variables")}</label><textarea id="set-vars" rows="2" placeholder="customer=Anna" @input=${set("vars")}></textarea><span class="hint">${t("One name=value per line, for prompts.")}</span></div>
        ${text("task", t("Task"))}${text("session", t("Session"))}${text("language", t("Language"))}</div></details></section>`;
  }
}
customElements.define("playground-page", PlaygroundPage);
