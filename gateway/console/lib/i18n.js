/**
 * Texts. Code has the English text, and a language's catalogue maps it to its own: `t("{n} resource|{n} resources", {n})`
 * chooses the form by the language's plural rules. To add a language, add a catalogue beside `de.js` and list it here.
 */

/** @type {Record<string, {name: string, load: () => Promise<{default: Record<string, string>}>}>} */
export const LANGUAGES = {
  en: {name: "English", load: async () => ({default: {}})},
  de: {name: "Deutsch", load: () => import("../i18n/de.js")},
};

/** @type {Record<string, string>} */
let catalogue = {};
let language = "en";
let plurals = new Intl.PluralRules("en");

export const getLanguage = () => language;

/** The language that was chosen, else the first of the browser's that there is a catalogue for. */
export async function startTexts() {
  const kept = localStorage.getItem("console.language");
  const wanted = [kept, ...navigator.languages].map((tag) => (tag || "").slice(0, 2));
  await useLanguage(wanted.find((tag) => tag in LANGUAGES) || "en");
}

/** @param {string} tag */
export async function useLanguage(tag) {
  catalogue = (await LANGUAGES[tag].load()).default;
  language = tag;
  plurals = new Intl.PluralRules(tag);
  document.documentElement.lang = tag;
}

/** @param {string} tag */
export function keepLanguage(tag) {
  localStorage.setItem("console.language", tag);
  return useLanguage(tag);
}

/**
 * @param {string} text
 * @param {Record<string, string | number>} [values]
 */
export function t(text, values) {
  const found = catalogue[text] ?? text;
  const form = found.includes("|") && values && "n" in values ? chooseForm(found, Number(values.n)) : found;
  return values ? form.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? show(values[name]) : whole)) : form;
}

/**
 * @param {string} forms
 * @param {number} count
 */
function chooseForm(forms, count) {
  const [one, other] = forms.split("|");
  return plurals.select(count) === "one" ? one : other;
}

/** @param {string | number} value */
const show = (value) => (typeof value === "number" ? value.toLocaleString(language) : value);
