/** Starts the console. */
import {startTexts} from "./lib/i18n.js";
import {applyTheme, getState} from "./lib/state.js";

applyTheme(getState().theme);
await startTexts();
await import("./shell/app.js");
