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
