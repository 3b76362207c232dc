// Codex without a terminal; its tools are its own, so that only a plain answer is asked for.
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';

import * as shop from './shop.mjs';

const exporter = (signal) =>
  `{ otlp-http = { endpoint = "${process.env.MODEL_URL}/v1/${signal}", protocol = "binary" } }`;
mkdirSync(`${process.env.HOME}/.codex`, { recursive: true });
writeFileSync(
  `${process.env.HOME}/.codex/config.toml`,
  `model = "gpt-5-mini"
model_provider = "local"
[model_providers.local]
name = "local"
base_url = "${shop.url}"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
[otel]
log_user_prompt = true
exporter = ${exporter('logs')}
trace_exporter = ${exporter('traces')}
`,
);

await shop.each(
  async (name, prompt) => {
    const options = ['exec', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', prompt];
    const done = spawnSync('node_modules/.bin/codex', options, { encoding: 'utf8', input: '', timeout: 90_000 });
    if (done.status) throw new Error(`${done.status} ${done.stdout} ${done.stderr}`);
  },
  ['plain'],
);
