/** Fills a list with texts. */
export function renderChips(list, texts) {
  list.replaceChildren(...texts.map((text) => Object.assign(document.createElement("li"), {textContent: text})));
}
