// One scenario of an agent of VoltAgent, named by the argument; started by record_voltagent.py.
import { createOpenAI } from '@ai-sdk/openai';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { BatchSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { Agent, VoltAgentObservability, createTool } from '@voltagent/core';
import { z } from 'zod';

const script = JSON.parse(process.env.SCRIPT);
const processor = new BatchSpanProcessor(new OTLPTraceExporter());
const observability = new VoltAgentObservability({ serviceName: 'voltagent', spanProcessors: [processor] });
// fetch knows no proxies: the server stands in for the model's service by its path
const viaServer = (url, options) =>
  fetch(String(url).replace('http://api.openai.com', process.env.HTTP_PROXY), options);
const openai = createOpenAI({ fetch: viaServer, baseURL: process.env.OPENAI_BASE_URL });
const results = script.results;
const getWeather = createTool({
  name: script.tool,
  description: script.description,
  parameters: z.object({ city: z.string() }),
  execute: async ({ city }) => {
    if (!(city in results)) throw new Error(`unknown city: ${city}`);
    return results[city];
  },
});

const [name] = process.argv.slice(2);
const tools = name === 'agent-run' ? [] : [getWeather];
const model = openai.chat(script.model);
const agent = new Agent({ name: 'shop', instructions: script.system, model, tools, observability });
const options = { userId: script.user, conversationId: script.session, maxRetries: 0 };
const question = script.questions[name];
if (name.startsWith('streamed')) {
  const answer = await agent.streamText(question, options);
  for await (const _ of answer.textStream);
} else {
  await agent.generateText(question, options);
}
await new Promise((done) => setTimeout(done, 500)); // what it writes to its memory comes after the answer
await processor.forceFlush();
process.exit(0);
