/** Every page: its address, its element, the role that it needs and its place in the navigation. */
import {t} from "../lib/i18n.js";

/** @type {import("../lib/router.js").Route[]} */
export const ROUTES = [
  {path: "/", tag: "overview-page", load: () => import("../pages/overview/page.js"), role: "editor"},
  {path: "/contexts", tag: "contexts-page", load: () => import("../pages/contexts/list.js"), role: "editor"},
  {path: "/contexts/:alias/:resource?", tag: "context-editor", load: () => import("../pages/contexts/editor.js"), role: "editor"},
  {path: "/content", tag: "content-page", load: () => import("../pages/content/page.js"), role: "editor"},
  {path: "/agents/:alias?", tag: "agents-page", load: () => import("../pages/objects/agents.js"), role: "editor"},
  {path: "/profiles/:alias?", tag: "profiles-page", load: () => import("../pages/objects/profiles.js"), role: "editor"},
  {path: "/prompts/:alias?", tag: "prompts-page", load: () => import("../pages/objects/prompts.js"), role: "editor"},
  {path: "/recipes/:alias?", tag: "recipes-page", load: () => import("../pages/objects/recipes.js"), role: "editor"},
  {path: "/playground", tag: "playground-page", load: () => import("../pages/playground/page.js")},
  {path: "/receipts", tag: "receipts-page", load: () => import("../pages/receipts/list.js"), role: "admin"},
  {path: "/receipts/:receipt", tag: "receipt-page", load: () => import("../pages/receipts/receipt.js"), role: "admin"},
  {path: "/sessions", tag: "sessions-page", load: () => import("../pages/sessions/page.js")},
  {path: "/analytics", tag: "analytics-page", load: () => import("../pages/analytics/page.js"), role: "editor"},
  {path: "/try", tag: "try-page", load: () => import("../pages/try/page.js"), role: "editor"},
  {path: "/knowledge/:entity?", tag: "knowledge-page", load: () => import("../pages/knowledge/page.js"), role: "editor"},
  {path: "/keys", tag: "keys-page", load: () => import("../pages/keys/page.js"), role: "admin"},
  {path: "/audit", tag: "audit-page", load: () => import("../pages/audit/page.js"), role: "admin"},
  {path: "/bundles", tag: "bundles-page", load: () => import("../pages/bundles/page.js"), role: "editor"},
];

/** @returns {{title: string, links: [string, string, string][]}[]} groups of path, name and icon */
export function listNavigation() {
  return [
    {title: "", links: [["/", t("Overview"), "layout-dashboard"], ["/playground", t("Playground"), "message-square-text"]]},
    {
      title: t("Shape"),
      links: [
        ["/contexts", t("Contexts"), "layers"], ["/content", t("Content"), "folder-tree"], ["/agents", t("Agents"), "bot"],
        ["/profiles", t("Profiles"), "sliders-horizontal"], ["/prompts", t("Prompts"), "quote"],
        ["/recipes", t("Recipes"), "list-tree"],
        ["/knowledge", t("Knowledge"), "waypoints"], ["/try", t("Try a change"), "flask-conical"],
      ],
    },
    {
      title: t("See"),
      links: [
        ["/receipts", t("Receipts"), "receipt-text"], ["/sessions", t("Sessions"), "message-square"],
        ["/analytics", t("Analytics"), "chart-line"],
      ],
    },
    {
      title: t("Manage"),
      links: [["/keys", t("Keys"), "key"], ["/audit", t("Audit"), "scroll-text"], ["/bundles", t("Import and export"), "package"]],
    },
  ];
}

/** @param {string} path */
export function findRole(path) {
  return ROUTES.find((route) => route.path === path || route.path.startsWith(`${path}/:`))?.role || "chat";
}
