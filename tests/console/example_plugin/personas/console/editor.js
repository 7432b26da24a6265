/** Edits a persona: a role, and what it knows as chips. */
import {renderChips} from "./parts/chips.js";

export default class PersonaEditor extends HTMLElement {
  #data = {};

  set data(data) {
    this.#data = data;
    this.show();
  }

  connectedCallback() {
    this.show();
  }

  send(change) {
    this.#data = {...this.#data, ...change};
    this.dispatchEvent(new CustomEvent("change", {detail: this.#data}));
    this.show();
  }

  show() {
    if (!this.querySelector("input")) this.build();
    const [role] = this.querySelectorAll("input");
    if (role.value !== (this.#data.role ?? "")) role.value = this.#data.role ?? "";
    for (const field of this.querySelectorAll("input")) field.disabled = this.disabled;
    this.querySelector("p").textContent = this.faults?.["/role"] ?? "";
    renderChips(this.querySelector("ul"), this.#data.knows ?? []);
  }

  build() {
    const role = document.createElement("input");
    role.setAttribute("aria-label", "Role");
    role.addEventListener("input", () => this.send({role: role.value}));
    const topic = document.createElement("input");
    topic.setAttribute("aria-label", "Add a topic");
    topic.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !topic.value) return;
      this.send({knows: [...(this.#data.knows ?? []), topic.value]});
      topic.value = "";
    });
    const chips = document.createElement("ul");
    chips.setAttribute("aria-label", "Topics");
    this.append(role, document.createElement("p"), chips, topic);
  }
}
