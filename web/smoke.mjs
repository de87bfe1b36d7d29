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
const call = (verb, request) => JSON.parse(ask("steelyard_call", verb, JSON.stringify(request)));
const weighed = call("weigh", run);
const prediction = weighed.document;
assert.equal(prediction.schema, "steelyard.prediction/1");
assert.equal(prediction.parameters.total, 8030261248);
const peak = prediction.ranks[0].phases.find((phase) => phase.phase === prediction.peak.phase);
const piles = Object.entries(peak.piles).filter(([name]) => name !== "slack" && name !== "runtime");
assert.equal(piles.reduce((sum, [, bytes]) => sum + bytes, 0), prediction.peak.allocated_bytes);
console.log(`8 x H100, Llama 3.1 8B: ${prediction.verdict}, ${prediction.peak.allocated_bytes} bytes allocated`);

// The same through names, flags and a file that is handed in.
const named = call("weigh", { run: "llama-3.1-8b", on: "8xh100-sxm-80gb", engine: "fsdp2", sequence_length: 8192, micro_batch: 1 });
assert.equal(named.document.peak.allocated_bytes, prediction.peak.allocated_bytes);
const launch = 'base_model: meta-llama/Llama-3.1-8B\nsequence_len: 4096\nmicro_batch_size: 1\nbf16: true\noptimizer: adamw_torch\n';
const imported = call("import", { run: "axolotl.yaml", on: "8xh100", files: { "axolotl.yaml": launch } });
assert.equal(imported.document.run.training.sequence_length, 4096);
const text = call("weigh", { run, format: "text" });
assert.match(text.text, /^does not fit +needs [\d.]+ GiB/);

const wrong = call("weigh", { run: 'model = "llama-3.1-8b"\nengin = "fsdp2"\n' });
assert.equal(wrong.status, 2);
assert.equal(wrong.document.schema, "steelyard.error/1");
assert.equal(call("wiegh", {}).document.problems[0].code, "E001");
// No file of anybody's machine is there.
assert.equal(call("weigh", { run: "/etc/passwd" }).status, 2);

// A file that is no text is written into the core's memory and named by a request; one that comes out arrives as it was.
const snapshot = call("weigh", { run, snapshot: "oom.pickle" }).files.find((file) => file.name === "oom.pickle");
const bytes = Buffer.from(snapshot.base64 ?? snapshot.text, snapshot.base64 ? "base64" : "utf8");
assert.ok(bytes.length > 10_000 && bytes[0] === 0x80, "a pickle");
const room = core.cwrap("steelyard_room", "number", ["string", "number"])("oom.pickle", bytes.length);
core.HEAPU8.set(bytes, room >>> 0);
const read = call("diagnose", { evidence: ["oom.pickle"] });
assert.equal(read.document.schema, "steelyard.diagnosis/1", JSON.stringify(read).slice(0, 300));
assert.ok(read.document.piles.activations > 0);
core.cwrap("steelyard_release", null, [])();
assert.equal(call("diagnose", { evidence: ["oom.pickle"] }).status, 2);
