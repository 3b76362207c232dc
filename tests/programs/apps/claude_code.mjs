// Claude Code without a terminal; its tools are its own, so that only a plain answer is asked for.
import { spawnSync } from 'node:child_process';

import * as shop from './shop.mjs';

await shop.each(
  async (name, prompt) => {
    const done = spawnSync('node_modules/.bin/claude', ['-p', prompt, '--model', 'claude-sonnet-4-5'], {
      encoding: 'utf8',
      input: '',
      timeout: 90_000,
      env: { ...process.env, ANTHROPIC_BASE_URL: process.env.MODEL_URL, IS_SANDBOX: '1' },
    });
    if (done.status) throw new Error(`${done.status} ${done.stdout} ${done.stderr}`);
  },
  ['plain'],
);
