import {html, nothing} from "../../vendor/lit.js";

/** @param {any} receipt */
export function statusBadge(receipt) {
  const kind = receipt.status === "ok" ? "good" : receipt.status === "started" ? "info" : receipt.status === "error" ? "bad" : "warn";
  return html`<span class="badge ${kind}">${receipt.error || receipt.status}</span>${receipt.degraded?.length ? html` <span class="badge warn">${receipt.degraded.join(", ")}</span>` : nothing}`;
}
