/** Numbers, times and sizes as people read them. */
import {getLanguage, t} from "./i18n.js";

const UNITS = /** @type {const} */ ([["year", 31536000], ["month", 2592000], ["day", 86400], ["hour", 3600], ["minute", 60]]);

/** @param {number | null | undefined} value */
export const formatNumber = (value) => (value === null || value === undefined ? "–" : value.toLocaleString(getLanguage()));

/** 12,400 as 12.4K. @param {number | null | undefined} value */
export function formatShort(value) {
  if (value === null || value === undefined) return "–";
  return new Intl.NumberFormat(getLanguage(), {notation: "compact", maximumFractionDigits: 1}).format(value);
}

/** @param {number | null | undefined} share between 0 and 1 */
export function formatShare(share) {
  if (share === null || share === undefined) return "–";
  return new Intl.NumberFormat(getLanguage(), {style: "percent", maximumFractionDigits: 1}).format(share);
}

/** @param {number | null | undefined} dollars */
export function formatCost(dollars) {
  if (dollars === null || dollars === undefined) return "–";
  const digits = dollars !== 0 && dollars < 0.1 ? 4 : 2;
  return new Intl.NumberFormat(getLanguage(), {style: "currency", currency: "USD", maximumFractionDigits: digits}).format(dollars);
}

/** @param {number | null | undefined} seconds */
export function formatSeconds(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  return seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toLocaleString(getLanguage(), {maximumFractionDigits: 1})} s`;
}

/** @param {number} bytes */
export function formatBytes(bytes) {
  const units = ["B", "KB", "MB", "GB"];
  let index = 0;
  while (bytes >= 1000 && index < units.length - 1) { bytes /= 1000; index += 1; }
  return `${bytes.toLocaleString(getLanguage(), {maximumFractionDigits: bytes < 10 && index ? 1 : 0})} ${units[index]}`;
}

/** @param {string | null | undefined} time RFC 3339 */
export function formatTime(time) {
  if (!time) return "–";
  return new Date(time).toLocaleString(getLanguage(), {dateStyle: "medium", timeStyle: "short"});
}

/** "3 minutes ago". @param {string | null | undefined} time */
export function formatAge(time) {
  if (!time) return "–";
  const seconds = (Date.now() - new Date(time).getTime()) / 1000;
  const relative = new Intl.RelativeTimeFormat(getLanguage(), {numeric: "auto"});
  for (const [unit, size] of UNITS) {
    if (Math.abs(seconds) >= size) return relative.format(-Math.round(seconds / size), unit);
  }
  return t("just now");
}

/** Scores have two decimals wherever they are shown. @param {number} score */
export const formatScore = (score) => score.toFixed(2);

/** Priorities have three digits: 7 is 007. @param {number} priority */
export const formatPriority = (priority) => String(priority).padStart(3, "0");
