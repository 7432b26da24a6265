/** Starts the console. */
import {startTexts} from "./lib/i18n.js";
import {applyTheme, getState} from "./lib/state.js";
import {restoreIdentity} from "./shell/identity.js";

applyTheme(getState().theme);
restoreIdentity().catch(() => {}); // the gateway answers while modules load; the app shows what went wrong
await startTexts();
await import("./shell/app.js");
