/** Who is signed in: with a key in memory, or with the gateway's session cookie. */
import {ApiError, call, get, setCredentials} from "../lib/api.js";
import {setState} from "../lib/state.js";

/** @type {Promise<void> | undefined} */
let restoring;

/** Asks the gateway once who this is; without an answer that helps, somebody has to sign in. */
export function restoreIdentity() {
  restoring ??= readIdentity().catch((error) => {
    if (!(error instanceof ApiError)) throw error;
    setState({identity: null, ready: true});
  });
  return restoring;
}

async function readIdentity() {
  const me = await get("me");
  if (me.sign_in) setCredentials({csrf: me.sign_in.csrf_token});
  setState({
    identity: {role: me.role, name: me.name, workspace: me.workspace, anonymous: me.key === null, features: me.features},
    ready: true,
  });
}

/**
 * @param {string} key
 * @param {boolean} stay whether to keep the session in a cookie, so that a reload does not ask again
 */
export async function signIn(key, stay) {
  setCredentials({key});
  try {
    if (stay) {
      const {data} = await call("POST", "sign-in");
      setCredentials({csrf: data.csrf_token}); // the cookie stands for the key from now on
    }
    await readIdentity();
  } catch (error) {
    setCredentials({});
    throw error;
  }
}

export async function signOut() {
  await call("DELETE", "sign-in").catch(() => {});
  setCredentials({});
  setState({identity: null});
}
