// One scenario of an application on the Vercel AI SDK, named by the argument; started by record_vercel.py.
import { createOpenAI } from '@ai-sdk/openai';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import * as ai from 'ai';
import { z } from 'zod';

const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ 'service.name': process.env.OTEL_SERVICE_NAME }),
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
});
provider.register();

const script = JSON.parse(process.env.SCRIPT);
// fetch knows no proxies: the server stands in for the model's service by its path
const viaServer = (url, options) =>
  fetch(String(url).replace('http://api.openai.com', process.env.HTTP_PROXY), options);
const openai = createOpenAI({ fetch: viaServer, baseURL: process.env.OPENAI_BASE_URL });
const metadata = { sessionId: script.session, userId: script.user };
const telemetry = { isEnabled: true, functionId: 'ask', metadata };
const options = { model: openai.chat(script.model), experimental_telemetry: telemetry, maxRetries: 0 };

if (!ai.stepCountIs) options.maxSteps = 3; // version 4
else options.stopWhen = ai.stepCountIs(3);
if (process.env.AI_OTEL) {
  const { OpenTelemetry } = await import('@ai-sdk/otel');
  ai.registerTelemetry(new OpenTelemetry());
}

const results = script.results;
const getWeather = ai.tool({
  description: script.description,
  [ai.stepCountIs ? 'inputSchema' : 'parameters']: z.object({ city: z.string() }),
  execute: async ({ city }) => {
    if (!(city in results)) throw new Error(`unknown city: ${city}`);
    return results[city];
  },
});
const tools = { get_weather: getWeather };
const picture = [{ type: 'text', text: script.picture }, { type: 'image', image: new URL(script.pictureUrl) }];
const history = [
  { role: 'user', content: script.hello },
  { role: 'assistant', content: script.greeting },
  { role: 'user', content: script.name },
];

const scenarios = {
  chat: () => ai.generateText({ ...options, prompt: script.capital }),
  responses: () => ai.generateText({ ...options, model: openai(script.model), prompt: script.capital }),
  conversation: () => ai.generateText({ ...options, system: script.system, messages: history }),
  multimodal: () => ai.generateText({ ...options, messages: [{ role: 'user', content: picture }] }),
  streamed: () => ai.streamText({ ...options, prompt: script.count }).consumeStream(),
  'streamed-tool-call': () => ai.streamText({ ...options, tools, prompt: script.weather }).consumeStream(),
  'tool-call': () => ai.generateText({ ...options, tools, prompt: script.weather }),
  'parallel-tool-calls': () => ai.generateText({ ...options, tools, prompt: script.compare }),
  'tool-error': () => ai.generateText({ ...options, tools, prompt: script.atlantis }),
  refused: () => ai.generateText({ ...options, prompt: script.refused }),
  session: async () => {
    const messages = [];
    for (const content of script.questions) {
      messages.push({ role: 'user', content });
      const { response } = await ai.generateText({ ...options, tools, messages });
      messages.push(...response.messages);
    }
  },
  embedding: () =>
    ai.embed({ ...options, model: openai.textEmbeddingModel(script.embeddingModel), value: script.capital }),
};

await scenarios[process.argv[2]]().catch((error) => {
  if (!['refused', 'tool-error'].includes(process.argv[2])) throw error;
});
await provider.forceFlush();
await provider.shutdown();
