// Node clients: one line of JSON in ({"client", "scenario"}), one out ({"result"} or {"error"}).
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
const model = "m-large";
const question = "What is the weather in Oslo?";
const messages = [{ role: "user", content: question }];
const Place = z.object({ city: z.string() });
const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const description = "The weather of a city";
const sunny = "Sunny.";

const chat = () => {
  const client = new OpenAI({ baseURL, apiKey, defaultHeaders: headers, maxRetries: 0 });
  const create = (said) => client.chat.completions.create({ model, messages, ...said });
  return {
    ask: async () => (await create({})).choices[0].message.content,
    stream: async () => {
      let text = "";
      for await (const chunk of await create({ stream: true })) text += chunk.choices[0]?.delta?.content ?? "";
      return text;
    },
    useTool: async () => {
      const tools = [{ type: "function", function: { name: "get_weather", description, parameters: schema } }];
      const { message } = (await create({ tools })).choices[0];
      const calls = message.tool_calls.map((call) => [call.function.name, JSON.parse(call.function.arguments)]);
      const results = message.tool_calls.map(({ id }) => ({ role: "tool", tool_call_id: id, content: sunny }));
      const last = await create({ tools, messages: [...messages, message, ...results] });
      return { calls, text: last.choices[0].message.content };
    },
    parse: async () => {
      const response_format = zodResponseFormat(Place, "place");
      return (await client.chat.completions.parse({ model, messages, response_format })).choices[0].message.parsed;
    },
  };
};

const responses = () => {
  const client = new OpenAI({ baseURL, apiKey, defaultHeaders: headers, maxRetries: 0 });
  const create = (said) => client.responses.create({ model, input: question, ...said });
  return {
    ask: async () => (await create({})).output_text,
    stream: async () => {
      let text = "";
      for await (const event of await create({ stream: true })) {
        if (event.type === "response.output_text.delta") text += event.delta;
      }
      return text;
    },
    useTool: async () => {
      const tools = [{ type: "function", name: "get_weather", description, parameters: schema, strict: false }];
      const first = await create({ tools });
      const called = first.output.filter((item) => item.type === "function_call");
      const results = called.map(({ call_id }) => ({ type: "function_call_output", call_id, output: sunny }));
      const last = await create({ tools, input: [{ role: "user", content: question }, ...first.output, ...results] });
      return { calls: called.map((one) => [one.name, JSON.parse(one.arguments)]), text: last.output_text };
    },
    parse: async () => {
      const text = { format: zodTextFormat(Place, "place") };
      return (await client.responses.parse({ model, input: question, text })).output_parsed;
    },
    retrieve: async () => (await client.responses.retrieve((await create({})).id)).output_text,
    streamWhole: async () => (await client.responses.stream({ model, input: question }).finalResponse()).output_text,
  };
};

const anthropic = () => {
  const client = new Anthropic({ baseURL: origin, apiKey, defaultHeaders: headers, maxRetries: 0 });
  const create = (said) => client.messages.create({ model, max_tokens: 500, messages, ...said });
  const join = (message) => message.content.map((block) => block.text ?? "").join("");
  const tools = [{ name: "get_weather", description, input_schema: schema }];
  return {
    ask: async () => join(await create({})),
    stream: async () => join(await client.messages.stream({ model, max_tokens: 500, messages }).finalMessage()),
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
      const weather = betaTool({ name: "get_weather", description, inputSchema: schema, run });
      return join(await client.beta.messages.toolRunner({ model, max_tokens: 500, messages, tools: [weather] }));
    },
    think: async () => {
      const thinking = { type: "enabled", budget_tokens: 1024 };
      const said = await client.messages.stream({ model, max_tokens: 2000, messages, thinking }).finalMessage();
      return said.content.map((block) => [block.type, block.thinking ?? block.text]);
    },
  };
};

const aiSdk = (languageModel) => () => {
  const settings = { model: languageModel(), prompt: question, maxRetries: 0 };
  return {
    ask: async () => (await generateText(settings)).text,
    stream: async () => {
      let text = "";
      // Its stream of texts ends as if nothing had happened when there is an error.
      for await (const part of streamText({ ...settings, onError: () => {} }).fullStream) {
        if (part.type === "error") throw part.error;
        if (part.type === "text-delta") text += part.text;
      }
      return text;
    },
    useTool: async () => {
      const get_weather = tool({ description, inputSchema: Place, execute: async () => sunny });
      const done = await generateText({ ...settings, tools: { get_weather }, stopWhen: stepCountIs(3) });
      const calls = done.steps.flatMap((step) => step.toolCalls.map((call) => [call.toolName, call.input]));
      return { calls, text: done.text };
    },
    parse: async () => (await generateText({ ...settings, output: Output.object({ schema: Place }) })).output,
  };
};

const openaiProvider = () => createOpenAI({ baseURL, apiKey, headers });
const CLIENTS = {
  "openai": chat,
  "openai-responses": responses,
  "anthropic": anthropic,
  "ai-sdk-chat": aiSdk(() => openaiProvider().chat(model)),
  "ai-sdk-responses": aiSdk(() => openaiProvider()(model)),
  "ai-sdk-anthropic": aiSdk(() => createAnthropic({ baseURL, apiKey, headers })(model)),
};

// Standard output is for answers; some clients write warnings there.
console.log = console.info = console.error;
// A stream that fails rejects promises that nobody here waits for.
process.on("unhandledRejection", () => {});

for await (const line of createInterface({ input: process.stdin })) {
  const { client, scenario } = JSON.parse(line);
  let answer;
  try {
    answer = { result: await CLIENTS[client]()[scenario]() };
  } catch (error) {
    // What comes in the middle of a stream is not always an Error.
    const { name = "Error", status = error.statusCode ?? null, message = JSON.stringify(error) } = error;
    answer = { error: { name, status, message: String(message) } };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
