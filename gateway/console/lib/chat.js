/** A streaming chat through the gateway. */
import {ApiError, send} from "./api.js";

/**
 * @param {{model: string, messages: {role: string, content: string}[], context: Record<string, any>}} request
 * @param {(text: string) => void} receive called with each piece of the answer
 * @param {AbortSignal} signal
 * @returns {Promise<{receipt: string | null, headers: Headers}>}
 */
export async function streamChat({model, messages, context}, receive, signal) {
  const body = {...(model ? {model} : {}), messages, stream: true, ...(Object.keys(context).length ? {context} : {})};
  const response = await send("POST", "/v1/chat/completions", {body, signal});
  for await (const data of readEvents(/** @type {ReadableStream<Uint8Array>} */ (response.body))) {
    if (data === "[DONE]") break;
    const event = JSON.parse(data);
    if (event.error) throw new ApiError(502, {detail: event.error.message, code: event.error.code});
    const piece = event.choices?.[0]?.delta?.content;
    if (piece) receive(piece);
  }
  return {receipt: response.headers.get("x-context-receipt"), headers: response.headers};
}

/** The data of server-sent events. @param {ReadableStream<Uint8Array>} stream */
export async function* readEvents(stream) {
  const reader = stream.pipeThrough(/** @type {any} */ (new TextDecoderStream())).getReader();
  let rest = "";
  try {
    for (;;) {
      const {value, done} = await reader.read();
      if (done) return;
      rest += value;
      const events = rest.split(/\r?\n\r?\n/);
      rest = events.pop() || "";
      for (const event of events) {
        const data = event.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart()).join("\n");
        if (data) yield data;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
