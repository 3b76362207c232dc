// OpenAI's client wrapped by Langfuse.
import { LangfuseSpanProcessor } from '@langfuse/otel';
import { observeOpenAI } from '@langfuse/openai';
import { startActiveObservation } from '@langfuse/tracing';
import OpenAI from 'openai';

import * as shop from './shop.mjs';

const provider = shop.tracing(new LangfuseSpanProcessor());
const client = observeOpenAI(new OpenAI({ baseURL: shop.url, apiKey: 'none' }));
const schemas = JSON.parse(process.env.SHOP).tools;

const toTheEnd = async (name, prompt) => {
  const messages = [{ role: 'system', content: shop.system }, { role: 'user', content: prompt }];
  for (;;) {
    const answer = await client.chat.completions.create({ model: shop.model, messages, tools: schemas });
    const message = answer.choices[0].message;
    messages.push(message);
    if (!message.tool_calls) return;
    for (const call of message.tool_calls) {
      let content;
      try {
        const run = call.function.name === 'lookup_stock' ? shop.lookupStock : shop.trackOrder;
        const result = run(JSON.parse(call.function.arguments));
        content = typeof result === 'string' ? result : JSON.stringify(result);
      } catch (error) {
        content = `error: ${error.message}`;
      }
      messages.push({ role: 'tool', tool_call_id: call.id, content });
    }
  }
};

const respond = async (prompt) => {
  const input = [{ role: 'user', content: prompt }];
  const tools = schemas.map((tool) => ({ type: 'function', strict: false, ...tool.function }));
  for (;;) {
    const answer = await client.responses.create({ model: shop.model, instructions: shop.system, input, tools });
    input.push(...answer.output);
    const calls = answer.output.filter((item) => item.type === 'function_call');
    if (!calls.length) return;
    for (const call of calls) {
      const run = call.name === 'lookup_stock' ? shop.lookupStock : shop.trackOrder;
      const result = run(JSON.parse(call.arguments));
      const output = typeof result === 'string' ? result : JSON.stringify(result);
      input.push({ type: 'function_call_output', call_id: call.call_id, output });
    }
  }
};

await shop.each(
  (name, prompt) =>
    startActiveObservation(`app ${name}`, () =>
      ['seq-think', 'refuse'].includes(name) ? respond(prompt) : toTheEnd(name, prompt),
    ),
  ['plain', 'seq-think', 'parallel-preamble', 'failtool', 'refuse', 'cut', 'twice', 'first'],
);
await provider.forceFlush();
await provider.shutdown();
