import {ref} from "../vendor/lit.js";

/**
 * Styles that depend on data: `<i ${styled({width: "40%"})}></i>`. They are set one by one, because the page's security
 * policy forbids style attributes.
 * @param {Record<string, string>} styles
 */
export const styled = (styles) => ref((element) => {
  if (!(element instanceof HTMLElement || element instanceof SVGElement)) return;
  for (const [name, value] of Object.entries(styles)) element.style.setProperty(name, value);
});
