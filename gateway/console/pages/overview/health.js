/** The state of what the gateway depends on. */
import {html, nothing} from "../../vendor/lit.js";
import {t} from "../../lib/i18n.js";

/**
 * @typedef {{name: string, state: "good" | "warn" | "bad", note: string}} HealthLine
 */

/** @param {any} data */
export function renderHealth({health, links, servers}) {
  const lines = [...listGateway(health), ...listUpstreams(health?.upstreams), ...listLinks(links), ...listServers(servers)];
  const words = {good: t("fine"), warn: t("attention"), bad: t("failing")};
  return html`<section class="card"><div class="card-head"><h2>${t("Health")}</h2></div>
    <div class="card-body health-grid">${lines.map((line) => html`<div class="health-line"><span class="dot ${line.state}"></span>
      <span class="grow truncate"><strong>${line.name}</strong> <span class="visually-hidden">${words[line.state]}</span>
        <span class="muted">${line.note}</span></span></div>`)}${lines.length ? nothing : html`<p class="muted">${t("Nothing to report.")}</p>`}</div></section>`;
}

/** @param {any} health @returns {HealthLine[]} */
function listGateway(health) {
  if (!health) return [];
  const stopped = Object.entries(health.jobs || {}).filter(([, job]) => !(/** @type {any} */ (job).running));
  return [
    {name: t("Policies"), state: health.policies.error ? "bad" : "good", note: health.policies.error || t("snapshot {hash}", {hash: health.policies.snapshot})},
    {name: t("Store"), state: health.store.ok ? "good" : "bad", note: health.store.ok ? t("answers") : health.store.error || t("does not answer")},
    {
      name: t("Background jobs"), state: stopped.length ? "warn" : "good",
      note: stopped.length ? stopped.map(([name]) => name).join(", ") : t("{n} running", {n: Object.keys(health.jobs || {}).length}),
    },
  ];
}

/** @param {any[] | undefined} upstreams @returns {HealthLine[]} */
function listUpstreams(upstreams = []) {
  const states = /** @type {Record<string, [HealthLine["state"], string]>} */ ({up: ["good", t("answers")], recovering: ["warn", t("recovers")], down: ["bad", t("does not answer")], disabled: ["warn", t("has no key")]});
  return upstreams.map((one) => ({name: one.name, state: states[one.state][0], note: states[one.state][1]}));
}

/** @param {any} links @returns {HealthLine[]} */
function listLinks(links) {
  if (!links?.total) return [];
  const broken = links.items.filter((/** @type {any} */ link) => link.error || link.link?.error);
  return [{
    name: t("Links"), state: broken.length ? "warn" : "good",
    note: broken.length ? t("{n} of {total} cannot be fetched", {n: broken.length, total: links.total}) : t("{n} up to date", {n: links.total}),
  }];
}

/** @param {any} servers @returns {HealthLine[]} */
function listServers(servers) {
  if (!servers?.total) return [];
  return servers.items.map((/** @type {any} */ server) => ({
    name: server.name, state: server.state === "up" ? "good" : server.state === "down" ? "bad" : "warn",
    note: server.error || t("{n} tool|{n} tools", {n: server.tools.length}),
  }));
}
