// The page and the terminal, asked the same ten runs, say the same line.

import { spawnSync } from "node:child_process";
import path from "node:path";
import { expect, open, test, verdict } from "./page";

const program = process.env["STEELYARD"] ?? path.resolve(import.meta.dirname, "../../../build/release/steelyard");

const RUNS: [string, string, number][] = [
  ["llama-3.1-8b", "8xh100-sxm-80gb", 2048],
  ["llama-3.1-8b", "8xh100-sxm-80gb", 8192],
  ["llama-3.1-8b", "1xrtx-4090", 4096],
  ["llama-3.1-70b", "64xh100-sxm-80gb", 4096],
  ["mixtral-8x7b", "16xa100-sxm-80gb", 4096],
  ["qwen2.5-7b", "4xa100-sxm-80gb", 4096],
  ["gpt2", "1xrtx-4090", 1024],
  ["mistral-7b-v0.3", "8xa100-sxm-40gb", 2048],
  ["qwen3-0.6b", "1xrtx-4090", 2048],
  ["7b", "2xh100-sxm-80gb", 2048],
];

for (const [model, on, sequence] of RUNS)
  test(`${model} on ${on}, ${sequence} tokens`, async ({ page }) => {
    const told = spawnSync(program, ["weigh", model, "--on", on, "--sequence-length", String(sequence), "--html", "-"], {
      encoding: "utf8",
      maxBuffer: 1 << 26,
    });
    expect(told.status, told.stderr).toBeLessThanOrEqual(1);
    const line = /<h1>([\s\S]*?)<\/h1>/.exec(told.stdout)?.[1] ?? "";
    expect(line).toMatch(/^needs/);
    await open(page, `#m=${model}&on=${on}&seq=${sequence}`);
    expect(await verdict(page)).toContain(line);
  });
