import {t} from "../../../lib/i18n.js";
import {textArea} from "./field.js";

/** @param {import("./registry.js").FormProps} props */
export function renderText({data, change, disabled, faults}) {
  return textArea({
    id: "text-content", label: t("Text"), hint: t("The model gets it exactly as you write it. Markdown is fine."), tall: true, required: true, disabled,
    fault: faults["/content"], value: data.content || "", change: (content) => change({...data, content}),
  });
}
