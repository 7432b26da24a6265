/**
 * The one client of the management API (`/api/v1`) and of chat (`/v1`). It holds the credential in memory: either a key
 * that was typed in, or the token against forged requests that goes with the session cookie.
 */

/** A reply that says no, as RFC 9457 or OpenAI's error shape describe it. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {{detail?: string, code?: string, errors?: Fault[]}} problem
   */
  constructor(status, problem) {
    super(problem.detail || `HTTP ${status}`);
    this.status = status;
    this.code = problem.code || "";
    /** @type {Fault[]} */
    this.errors = problem.errors || [];
  }
}

/**
 * @typedef {{message: string, pointer?: string, parameter?: string}} Fault
 * @typedef {Record<string, string | number | boolean | null | undefined>} Query
 * @typedef {{query?: Query, body?: any, etag?: string | null, type?: string, headers?: Record<string, string>, signal?: AbortSignal}} CallOptions
 * @typedef {{data: any, etag: string | null, headers: Headers}} Reply
 */

const credentials = {key: "", csrf: ""};

/** What is called when the gateway no longer knows the caller. */
let onSignedOut = () => {};

/** @param {() => void} listener */
export function whenSignedOut(listener) {
  onSignedOut = listener;
}

/** @param {{key?: string, csrf?: string}} next */
export function setCredentials(next) {
  credentials.key = next.key || "";
  credentials.csrf = next.csrf || "";
}

/** @returns {Record<string, string>} */
function buildHeaders() {
  /** @type {Record<string, string>} */
  const headers = {};
  if (credentials.key) headers["x-context-key"] = credentials.key;
  if (credentials.csrf) headers["x-csrf-token"] = credentials.csrf;
  return headers;
}

/**
 * @param {string} path
 * @param {Query} [query]
 */
function buildAddress(path, query) {
  const url = new URL(path.startsWith("/v1/") || path.startsWith("/readyz") ? path : `/api/v1/${path}`, location.origin);
  for (const [name, value] of Object.entries(query || {})) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, String(value));
  }
  return url;
}

/**
 * Sends a request and returns the raw response; an error status throws.
 * @param {string} method
 * @param {string} path below `/api/v1/`, or absolute for `/v1/`
 * @param {CallOptions} [options]
 */
export async function send(method, path, options = {}) {
  const {query, body, etag, type, headers: extra, signal} = options;
  const headers = {...buildHeaders(), ...extra};
  if (etag) headers[method === "GET" ? "if-none-match" : "if-match"] = etag;
  if (body !== undefined) headers["content-type"] = type || "application/json";
  const payload = body === undefined ? undefined : type ? body : JSON.stringify(body);
  const response = await fetch(buildAddress(path, query), {method, headers, body: payload, signal, credentials: "same-origin"});
  if (response.ok) return response;
  const problem = await readProblem(response);
  if (response.status === 401) onSignedOut();
  throw new ApiError(response.status, problem);
}

/** @param {Response} response */
async function readProblem(response) {
  try {
    const body = await response.json();
    if (body.error) return {detail: body.error.message, code: body.error.code};
    return body;
  } catch {
    return {detail: `${response.status} ${response.statusText}`};
  }
}

/**
 * @param {string} method
 * @param {string} path
 * @param {CallOptions} [options]
 * @returns {Promise<Reply>}
 */
export async function call(method, path, options) {
  const response = await send(method, path, options);
  const text = response.status === 204 ? "" : await response.text();
  const isJson = (response.headers.get("content-type") || "").includes("json");
  return {data: isJson && text ? JSON.parse(text) : text, etag: response.headers.get("etag"), headers: response.headers};
}

/**
 * @param {string} path
 * @param {Query} [query]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function get(path, query, signal) {
  return (await call("GET", path, {query, signal})).data;
}

/**
 * @param {string} path
 * @param {any} [body]
 * @param {Query} [query]
 * @returns {Promise<any>}
 */
export async function post(path, body, query) {
  return (await call("POST", path, {body: body === undefined ? {} : body, query})).data;
}

/** A path segment: `encode("halden/blog")` names one node. @param {string} text */
export const encode = (text) => encodeURIComponent(text);

const MOST_AT_ONCE = 1000; // items of one page

/**
 * Every item of a paged list, page by page.
 * @param {string} path
 * @param {Query} [query]
 * @returns {Promise<any[]>}
 */
export async function getAll(path, query = {}) {
  const items = [];
  for (let total = 1; items.length < total; ) {
    const page = await get(path, {...query, skip: items.length, take: MOST_AT_ONCE});
    items.push(...page.items);
    total = page.items.length ? page.total : 0; // what was deleted meanwhile never comes
  }
  return items;
}
