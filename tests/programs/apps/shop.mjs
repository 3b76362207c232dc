// Prompts, tools and the run of the scenarios for programs of Node; the prompts come from shop.py.
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';

export const { system, prompts, model, pixel, descriptions } = JSON.parse(process.env.SHOP);
export const url = `${process.env.MODEL_URL}/v1`;

export const lookupStock = ({ item, warehouse }) => {
  const number = Number(item.match(/\d+/)[0]);
  return { shelf: `shelf ${number}-${warehouse.slice(0, 1)}`, units: number % 50 };
};

export const trackOrder = ({ order_id: id }) => {
  if (id === 404) throw new Error('order 404 is lost at sea');
  return `order ${id} is in Wörgl`;
};

export const tracing = (processor) => {
  const provider = new NodeTracerProvider({
    resource: resourceFromAttributes({ 'service.name': process.env.OTEL_SERVICE_NAME }),
    spanProcessors: [processor ?? new BatchSpanProcessor(new OTLPTraceExporter())],
  });
  provider.register();
  return provider;
};

export const each = async (run, names) => {
  const wanted = process.env.SCENARIOS?.split(' ') ?? names;
  for (const name of names.filter((one) => wanted.includes(one))) {
    process.stdout.write(`scenario ${name}\n`);
    try {
      await run(name, prompts[name]);
    } catch (error) {
      process.stderr.write(`scenario ${name} raised\n${error.stack}\n`);
    }
  }
};
