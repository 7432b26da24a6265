import {html} from "../vendor/lit.js";
import {at} from "../lib/router.js";

export const renderBrand = () => html`<a class="brand" href=${at("/")}>
  <svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="8" fill="var(--accent)"></rect>
    <path d="M9 10.5h14M9 16h9M9 21.5h14" stroke="var(--accent-ink)" stroke-width="2.6" stroke-linecap="round"></path>
    <circle cx="22.6" cy="16" r="2.3" fill="var(--accent-line)"></circle></svg>Context Gateway</a>`;
