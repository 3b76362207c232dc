// Mastra's agent with its exporter for OpenTelemetry.
import { createOpenAI } from '@ai-sdk/openai';
import { Agent } from '@mastra/core/agent';
import { Mastra } from '@mastra/core/mastra';
import { createTool } from '@mastra/core/tools';
import { Observability } from '@mastra/observability';
import { OtelExporter } from '@mastra/otel-exporter';
import { z } from 'zod';

import * as shop from './shop.mjs';

const openai = createOpenAI({ baseURL: shop.url, apiKey: 'none' });
const lookup_stock = createTool({
  id: 'lookup_stock',
  description: shop.descriptions.lookup_stock,
  inputSchema: z.object({ item: z.string(), warehouse: z.string() }),
  execute: async (input) => shop.lookupStock(input.context ?? input),
});
const track_order = createTool({
  id: 'track_order',
  description: shop.descriptions.track_order,
  inputSchema: z.object({ order_id: z.number(), verbose: z.boolean() }),
  execute: async (input) => shop.trackOrder(input.context ?? input),
});
const agent = new Agent({
  id: 'shop',
  name: 'shop',
  instructions: shop.system,
  model: openai.chat(shop.model),
  tools: { lookup_stock, track_order },
});
const exporter = new OtelExporter({
  provider: { custom: { endpoint: `${process.env.MODEL_URL}/v1/traces`, protocol: 'http/protobuf', headers: {} } },
});
const mastra = new Mastra({
  agents: { shop: agent },
  observability: new Observability({ configs: { otel: { serviceName: 'mastra', exporters: [exporter] } } }),
});

await shop.each(
  async (name, prompt) => {
    const running = mastra.getAgent('shop');
    if (name === 'parallel-preamble') {
      const stream = await running.stream(prompt);
      for await (const _ of stream.textStream);
    } else {
      await running.generate(prompt);
    }
  },
  ['plain', 'seq-think', 'parallel-preamble', 'failtool', 'cut', 'twice', 'first'],
);
await mastra.shutdown();
