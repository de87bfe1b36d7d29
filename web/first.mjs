// node first.mjs FIRST_JS WHOLE_JS: what the first module answers is what the whole core answers, to the byte; what it does not
// know it says so. Prints the time of both.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

async function core(script) {
  const create = createRequire(import.meta.url)(path.resolve(script));
  const module = await create({ wasmBinary: readFileSync(script.replace(/\.js$/, ".wasm")) });
  const ask = module.cwrap("steelyard_call", "string", ["string", "string"]);
  return (verb, request) => JSON.parse(ask(verb, JSON.stringify(request)));
}

const [first, whole] = await Promise.all(process.argv.slice(2, 4).map(core));
const ELSEWHERE = 3;

const RUNS = [
  { run: { model: "llama-3.1-8b" }, set: { "cluster.device": "h100-sxm-80gb", "cluster.devices": "8", engine: "fsdp2", "training.sequence_length": "16384", "training.global_batch": "64" } },
  { run: { model: "llama-3.1-70b" }, set: { "cluster.device": "h100-sxm-80gb", "cluster.devices": "64", engine: "megatron", "parallel.tensor": "8", "parallel.pipeline": "4", "parallel.zero_stage": "1", "training.global_batch": "128" } },
  { run: { model: "mixtral-8x7b" }, set: { "cluster.device": "h100-sxm-80gb", "cluster.devices": "16", engine: "megatron", "parallel.expert": "8", "parallel.pipeline": "2", "training.global_batch": "128" } },
  { run: { model: "llama-2-7b" }, set: { "cluster.device": "rtx-4090", "cluster.devices": "1", "training.optimizer": "adamw-paged-8bit", "adapter.method": "lora", "adapter.rank": "16", "adapter.base": "nf4" } },
  { run: { model: "qwen3-14b" }, set: { "cluster.device": "a100-sxm-40gb", "cluster.devices": "4", engine: "deepspeed", "parallel.zero_stage": "3", "offload.optimizer": "cpu", "recompute.mode": "budget" } },
  { run: { model: { model_type: "llama", hidden_size: 2048, intermediate_size: 5632, num_hidden_layers: 22, num_attention_heads: 32, num_key_value_heads: 4, vocab_size: 32000 } }, set: { "cluster.device": "l4", "cluster.devices": "2" } },
  // Refused, in the same words.
  { run: { model: "lama-3.1-8b" }, set: { "cluster.device": "h100-sxm-80gb" } },
  { run: { model: "llama-3.1-8b" }, set: { "cluster.device": "h100-sxm-80gb", "parallel.tensor": "3" } },
];

// The whole core's report has what the first leaves out: where each number comes from.
const without = (html) => html.replace(/<details><summary>Where each number comes from[\s\S]*?<\/details>/, "");

for (const run of RUNS) {
  const estimate = { ...run, svg: "bar.svg" };
  assert.deepEqual(first("estimate", estimate), whole("estimate", estimate));
  const weigh = { ...run, no_suggestions: true, html: "report.html", write: "run.toml", picture_width: 320 };
  const [here, there] = [first("weigh", weigh), whole("weigh", weigh)];
  assert.notEqual(here.status, ELSEWHERE);
  for (const file of there.files) file.text = without(file.text);
  assert.deepEqual(here, there);
}

for (const [verb, request] of [
  ["plan", RUNS[0]],
  ["explain", { ...RUNS[0], selection: "activations" }],
  ["weigh", RUNS[0]],
  ["weigh", { run: "llama-3.1-8b", no_suggestions: true }],
  ["weigh", { run: 'model = "7b"\n', no_suggestions: true }],
  ["weigh", { ...RUNS[0], no_suggestions: true, snapshot: "snapshot.json" }],
])
  assert.equal(first(verb, request).status, ELSEWHERE, `${verb} ${JSON.stringify(request)}`);

function median(times) {
  return times.sort((a, b) => a - b)[Math.floor(times.length / 2)].toFixed(1);
}
for (const [name, ask] of [["first", first], ["whole", whole]])
  for (const run of RUNS.slice(0, 2)) {
    const times = { estimate: [], weigh: [] };
    for (let i = 0; i < 15; i += 1)
      for (const verb of ["estimate", "weigh"]) {
        const start = performance.now();
        ask(verb, { ...run, ...(verb === "weigh" ? { no_suggestions: true } : { svg: "bar.svg" }) });
        times[verb].push(performance.now() - start);
      }
    console.log(`${name}: ${run.run.model}: estimate ${median(times.estimate)} ms, weigh ${median(times.weigh)} ms`);
  }
