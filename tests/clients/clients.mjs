// Node clients: one line of JSON in ({"client", "scenario", "model", "stream"}), one out ({"result"} or {"error"}).
import { createInterface } from "node:readline";

import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const [origin] = process.argv.slice(2);
const baseURL = `${origin}/v1`;
const apiKey = "unused";
const headers = { "x-context-agent": "editor" };
const question = "What is the weather in Oslo?";
const messages = [{ role: "user", content: question }];
const Place = z.object({ city: z.string() });
const schema = {
  type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false,
};
const description = "The weather of a city";
const weather = { name: "get_weather", description, parameters: schema, strict: true };
const sunny = "Sunny.";

const chat = ({ model, stream }) => {
  const client = new OpenAI({ baseURL, apiKey, defaultHeaders: headers, maxRetries: 0 });
  const { completions } = client.chat;
  // The message that the helpers for typed replies make.
  const parse = async (said) => {
    const asked = { model, messages, ...said };
    const completion = await (stream ? completions.stream(asked).finalChatCompletion() : completions.parse(asked));
    return completion.choices[0].message;
  };
  return {
    ask: async () => {
      const said = await completions.create({ model, messages, stream });
      if (!stream) return said.choices[0].message.content;
      let text = "";
      for await (const chunk of said) text += chunk.choices[0]?.delta?.content ?? "";
      return text;
    },
    useTool: async () => {
      const tools = [{ type: "function", function: weather }];
      const message = await parse({ tools });
      const calls = message.tool_calls.map((call) => [call.function.name, JSON.parse(call.function.arguments)]);
      const results = message.tool_calls.map(({ id }) => ({ role: "tool", tool_call_id: id, content: sunny }));
      return { calls, text: (await parse({ tools, messages: [...messages, message, ...results] })).content };
    },
    parse: async () => (await parse({ response_format: zodResponseFormat(Place, "place") })).parsed,
  };
};

const responses = ({ model, stream }) => {
  const client = new OpenAI({ baseURL, apiKey, defaultHeaders: headers, maxRetries: 0 });
  // The response that the helpers for typed replies make.
  const parse = (said) => {
    const asked = { model, input: question, ...said };
    return stream ? client.responses.stream(asked).finalResponse() : client.responses.parse(asked);
  };
  return {
    ask: async () => {
      const said = await client.responses.create({ model, input: question, stream });
      if (!stream) return said.output_text;
      let text = "";
      for await (const event of said) if (event.type === "response.output_text.delta") text += event.delta;
      return text;
    },
    useTool: async () => {
      const tools = [{ type: "function", ...weather }];
      const first = await parse({ tools });
      const called = first.output.filter((item) => item.type === "function_call");
      const results = called.map(({ call_id }) => ({ type: "function_call_output", call_id, output: sunny }));
      const last = await parse({ tools, input: [{ role: "user", content: question }, ...first.output, ...results] });
      return { calls: called.map((one) => [one.name, JSON.parse(one.arguments)]), text: last.output_text };
    },
    parse: async () => (await parse({ text: { format: zodTextFormat(Place, "place") } })).output_parsed,
    retrieve: async () => {
      const { id } = await client.responses.create({ model, input: question });
      return (await client.responses.retrieve(id)).output_text;
    },
  };
};

const anthropic = ({ model, stream }) => {
  const client = new Anthropic({ baseURL: origin, apiKey, defaultHeaders: headers, maxRetries: 0 });
  const create = (said) => {
    const asked = { model, max_tokens: 500, messages, ...said };
    return stream ? client.messages.stream(asked).finalMessage() : client.messages.create(asked);
  };
  const join = (message) => message.content.map((block) => block.text ?? "").join("");
  const tools = [{ name: "get_weather", description, input_schema: schema }];
  return {
    ask: async () => join(await create({})),
    useTool: async () => {
      const first = await create({ tools });
      const called = first.content.filter((block) => block.type === "tool_use");
      const results = called.map(({ id }) => ({ type: "tool_result", tool_use_id: id, content: sunny }));
      const said = [...messages, { role: "assistant", content: first.content }, { role: "user", content: results }];
      const last = await create({ tools, messages: said });
      return { calls: called.map((one) => [one.name, one.input]), text: join(last) };
    },
    parse: async () => {
      const form = { name: "place", description: "Where somebody is", input_schema: schema };
      const said = await create({ tools: [form], tool_choice: { type: "tool", name: "place" } });
      return Place.parse(said.content.find((block) => block.type === "tool_use").input);
    },
    runTools: async () => {
      const run = async () => sunny;
      const tools = [betaTool({ name: "get_weather", description, inputSchema: schema, run })];
      return join(await client.beta.messages.toolRunner({ model, max_tokens: 500, messages, tools }));
    },
    think: async () => {
      const said = await create({ max_tokens: 2000, thinking: { type: "enabled", budget_tokens: 1024 } });
      return said.content.map((block) => [block.type, block.thinking ?? block.text]);
    },
  };
};

const aiSdk = (languageModel) => ({ model, stream }) => {
  const settings = { model: languageModel(model), prompt: question, maxRetries: 0 };
  // What the steps came to. A stream of texts ends as if nothing had happened when there is an error.
  const run = async (said) => {
    if (!stream) return generateText({ ...settings, ...said });
    const result = streamText({ ...settings, ...said, onError: () => {} });
    let pieces = "";
    for await (const part of result.fullStream) {
      if (part.type === "error") throw part.error;
      if (part.type === "text-delta") pieces += part.text;
    }
    const { output } = said;
    return { pieces, steps: await result.steps, text: await result.text, output: output && (await result.output) };
  };
  return {
    ask: async () => {
      const { text, pieces = text } = await run({});
      return pieces;
    },
    useTool: async () => {
      const get_weather = tool({ description, inputSchema: Place, execute: async () => sunny });
      const done = await run({ tools: { get_weather }, stopWhen: stepCountIs(3) });
      const calls = done.steps.flatMap((step) => step.toolCalls.map((call) => [call.toolName, call.input]));
      return { calls, text: done.text };
    },
    parse: async () => (await run({ output: Output.object({ schema: Place }) })).output,
  };
};

const openaiProvider = () => createOpenAI({ baseURL, apiKey, headers });
const CLIENTS = {
  "openai": chat,
  "openai-responses": responses,
  "anthropic": anthropic,
  "ai-sdk-chat": aiSdk((model) => openaiProvider().chat(model)),
  "ai-sdk-responses": aiSdk((model) => openaiProvider()(model)),
  "ai-sdk-anthropic": aiSdk((model) => createAnthropic({ baseURL, apiKey, headers })(model)),
};

// Standard output is for answers; some clients write warnings there.
console.log = console.info = console.error;
// A stream that fails rejects promises that nobody here waits for.
process.on("unhandledRejection", () => {});

for await (const line of createInterface({ input: process.stdin })) {
  const { client, scenario, ...options } = JSON.parse(line);
  let answer;
  try {
    answer = { result: await CLIENTS[client](options)[scenario]() };
  } catch (error) {
    // What comes in the middle of a stream is not always an Error.
    const { name = "Error", status = error.statusCode ?? null, message = JSON.stringify(error) } = error;
    answer = { error: { name, status, message: String(message) } };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
