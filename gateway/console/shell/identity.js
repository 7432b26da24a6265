/** Who is signed in: with a key in memory, or with the gateway's session cookie. */
import {ApiError, call, get, setCredentials} from "../lib/api.js";
import {getState, setState} from "../lib/state.js";

/** Asks the gateway who this is; without an answer that helps, somebody has to sign in. */
export async function restoreIdentity() {
  try {
    await readIdentity();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    setState({identity: null, ready: true});
  }
}

async function readIdentity() {
  const me = await get("me");
  if (me.sign_in) setCredentials({csrf: me.sign_in.csrf_token});
  setState({
    identity: {role: me.role, name: me.name, workspace: me.workspace, anonymous: me.key === null, features: me.features},
    ready: true,
  });
  if (me.role !== "chat") findKnowledge();
}

/** Whether this gateway has a knowledge graph: then there is a quota for its entities. */
async function findKnowledge() {
  const {items} = await get("quotas").catch(() => ({items: []}));
  const {identity} = getState();
  const knowledge = items.some((/** @type {any} */ quota) => quota.name === "entities");
  if (identity && knowledge) setState({identity: {...identity, features: {...identity.features, knowledge}}});
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
