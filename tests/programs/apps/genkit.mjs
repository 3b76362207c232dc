// Genkit over OpenAI's chat completions, with its own spans.
import { openAI } from '@genkit-ai/compat-oai/openai';
import { genkit, z } from 'genkit';

import * as shop from './shop.mjs';

const provider = shop.tracing();
const ai = genkit({ plugins: [openAI({ apiKey: 'none', baseURL: shop.url })] });
const lookup = ai.defineTool(
  {
    name: 'lookup_stock',
    description: shop.descriptions.lookup_stock,
    inputSchema: z.object({ item: z.string(), warehouse: z.string() }),
  },
  async (input) => shop.lookupStock(input),
);
const track = ai.defineTool(
  {
    name: 'track_order',
    description: shop.descriptions.track_order,
    inputSchema: z.object({ order_id: z.number(), verbose: z.boolean() }),
  },
  async (input) => shop.trackOrder(input),
);

await shop.each(
  async (name, prompt) => {
    const options = { model: openAI.model(shop.model), system: shop.system, prompt, tools: [lookup, track] };
    if (name === 'parallel-preamble') {
      const { stream, response } = ai.generateStream(options);
      for await (const _ of stream);
      await response;
    } else {
      await ai.generate(options);
    }
  },
  ['plain', 'seq-think', 'parallel-preamble', 'failtool', 'cut', 'twice', 'first'],
);
await provider.forceFlush();
