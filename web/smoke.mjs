// node smoke.mjs STEELYARD_JS VERSION: loads the core as the page would and asks it a few questions.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const [script, version] = process.argv.slice(2);
const createSteelyard = createRequire(import.meta.url)(path.resolve(script));
// Given as bytes: newer node has a fetch() that cannot read files, and the loader would try it.
const wasmBinary = readFileSync(script.replace(/\.js$/, ".wasm"));
const core = await createSteelyard({ wasmBinary });

const ask = (name, ...texts) =>
  core.cwrap(name, "string", texts.map(() => "string"))(...texts);

assert.equal(ask("steelyard_version"), version);
console.log(`steelyard ${version}: ${wasmBinary.length} bytes of wasm answer`);

// The main job, as the page will ask it, and a wrong one.
const run = {
  model: "llama-3.1-8b",
  engine: "fsdp2",
  cluster: { device: "h100-sxm-80gb", devices: 8 },
  training: { sequence_length: 8192, micro_batch: 1 },
};
const prediction = JSON.parse(ask("steelyard_weigh", JSON.stringify(run)));
assert.equal(prediction.schema, "steelyard.prediction/1");
assert.equal(prediction.parameters.total, 8030261248);
const peak = prediction.ranks[0].phases.find((phase) => phase.phase === prediction.peak.phase);
const piles = Object.entries(peak.piles).filter(([name]) => name !== "slack" && name !== "runtime");
assert.equal(piles.reduce((sum, [, bytes]) => sum + bytes, 0), prediction.peak.allocated_bytes);
const wrong = JSON.parse(ask("steelyard_weigh", 'model = "llama-3.1-8b"\nengin = "fsdp2"\n'));
assert.equal(wrong.schema, "steelyard.error/1");
console.log(`8 x H100, Llama 3.1 8B: ${prediction.verdict}, ${prediction.peak.allocated_bytes} bytes allocated`);
