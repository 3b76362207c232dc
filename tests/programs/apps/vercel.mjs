// Vercel's AI SDK, versions 6 and 7: the argument is `own` for its own telemetry, `otel` or `legacy` for @ai-sdk/otel.
import { createOpenAI } from '@ai-sdk/openai';
import * as ai from 'ai';
import { z } from 'zod';

import * as shop from './shop.mjs';

const provider = shop.tracing();
if (process.argv[2] !== 'own') {
  const { LegacyOpenTelemetry, OpenTelemetry } = await import('@ai-sdk/otel');
  ai.registerTelemetry(process.argv[2] === 'otel' ? new OpenTelemetry() : new LegacyOpenTelemetry());
}
const openai = createOpenAI({ baseURL: shop.url, apiKey: 'none' });
const tools = {
  lookup_stock: ai.tool({
    description: shop.descriptions.lookup_stock,
    inputSchema: z.object({ item: z.string(), warehouse: z.string() }),
    execute: shop.lookupStock,
  }),
  track_order: ai.tool({
    description: shop.descriptions.track_order,
    inputSchema: z.object({ order_id: z.number(), verbose: z.boolean() }),
    execute: shop.trackOrder,
  }),
};

await shop.each(
  async (name, prompt) => {
    const model = ['seq-think', 'refuse'].includes(name) ? openai.responses(shop.model) : openai.chat(shop.model);
    const telemetry = { isEnabled: true, functionId: name };
    const instructions = process.argv[2] === 'own' ? { system: shop.system } : { instructions: shop.system };
    const options = { model, experimental_telemetry: telemetry, telemetry, maxRetries: 0, ...instructions };
    if (name === 'picture') {
      const image = { type: 'image', image: Buffer.from(shop.pixel, 'base64'), mediaType: 'image/png' };
      await ai.generateText({ ...options, messages: [{ role: 'user', content: [{ type: 'text', text: prompt }, image] }] });
    } else if (name === 'parallel-preamble') {
      await ai.streamText({ ...options, tools, stopWhen: ai.stepCountIs(5), prompt }).consumeStream();
    } else {
      await ai.generateText({ ...options, tools, stopWhen: ai.stepCountIs(5), prompt });
    }
  },
  ['plain', 'seq-think', 'parallel-preamble', 'failtool', 'refuse', 'cut', 'twice', 'picture', 'first'],
);
await provider.forceFlush();
await provider.shutdown();
