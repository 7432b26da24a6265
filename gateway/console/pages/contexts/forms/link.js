import {html, nothing} from "../../../vendor/lit.js";
import {call, encode} from "../../../lib/api.js";
import {formatAge, formatBytes} from "../../../lib/format.js";
import {t} from "../../../lib/i18n.js";
import {notify} from "../../../lib/state.js";
import {icon} from "../../../ui/icon.js";

/** An address, the state of its copy, and "Refresh now". @param {import("./registry.js").FormProps} props */
export function renderLink({data, change, disabled, faults, resource, saved, context}) {
  return html`<div class="stack">
    <div class="field"><label class="required" for="link-url">${t("Address")}</label><input id="link-url" type="url" ?disabled=${disabled} aria-invalid=${String("/url" in faults)}
      .value=${data.url || ""} @input=${(/** @type {any} */ event) => change({...data, url: event.target.value})}>
      ${faults["/url"] ? html`<span class="fault">${faults["/url"]}</span>` : nothing}<span class="hint">${t("A page that needs no sign-in. The gateway keeps a copy and refreshes it.")}</span></div>
    <div class="field"><label for="link-interval">${t("Refresh every … seconds")}</label><input id="link-interval" type="number" min="60" ?disabled=${disabled} .value=${data.interval ?? ""} placeholder="86400"
      @input=${(/** @type {any} */ event) => change({...data, interval: event.target.value ? Number(event.target.value) : null})}></div>
    ${saved ? renderCopy(resource.link || {}, context, resource, change, data) : html`<p class="hint">${t("The page is fetched after you have saved.")}</p>`}</div>`;
}

/** @param {any} link @param {string} context @param {any} resource @param {(data: any) => void} change @param {any} data */
function renderCopy(link, context, resource, change, data) {
  const refresh = async (/** @type {any} */ event) => {
    const button = event.currentTarget;
    button.disabled = true;
    try {
      const {data: state} = await call("POST", `contexts/${encode(context)}/resources/${encode(resource.id)}/refresh`);
      Object.assign(link, state);
      resource.link = state;
      change({...data});
      notify(state.error ? "bad" : "good", state.error || t("Refreshed."));
    } catch (/** @type {any} */ error) {
      notify("bad", error.message);
    }
    button.disabled = false;
  };
  return html`<div class="file-card"><span class="type-icon">${icon("link")}</span><span class="grow">
      ${link.fetched_at ? html`<strong>${t("Copied {age}", {age: formatAge(link.fetched_at)})}</strong><span class="sub">${formatBytes(link.size || 0)}</span>` : html`<strong>${t("Never fetched")}</strong>`}
      ${link.error ? html`<span class="fault">${icon("triangle-alert")} ${link.error}</span>` : nothing}</span>
    <button type="button" class="button small" @click=${refresh}>${icon("refresh-cw")}${t("Refresh now")}</button></div>`;
}
