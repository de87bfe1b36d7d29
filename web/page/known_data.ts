// What the build asks the program: the names and keys that the page offers, and its worked answer.
//
//   STEELYARD=../../build/release/steelyard   the program
//   STEELYARD_CORE=../../build/wasm/web       steelyard.js and steelyard.wasm, steelyard-first.js and .wasm

import { execFileSync, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import type { Key, Known, Named } from "./src/known";

const root = path.resolve(import.meta.dirname, "../..");

function found(variable: string, ...places: string[]): string {
  const given = process.env[variable];
  const place = given ? path.resolve(given) : places.map((one) => path.join(root, one)).find(existsSync);
  if (!place || !existsSync(place))
    throw new Error(`${variable}: ${given ?? places.join(" and ")}: not there; \`make page\` builds it`);
  return place;
}

export const program = found("STEELYARD", "build/release/steelyard", "build/dev/steelyard");
export const core = found("STEELYARD_CORE", "build/wasm/web");

function list(what: string): Record<string, unknown>[] {
  const text = execFileSync(program, ["list", what, "--json"], { maxBuffer: 1 << 26, encoding: "utf8" });
  return (JSON.parse(text) as Record<string, Record<string, unknown>[]>)[what] ?? [];
}

function named(what: string, words: (one: Record<string, unknown>) => unknown): Named[] {
  return list(what).map((one) => ({ name: String(one["name"]), words: String(words(one) ?? "") }));
}

export function readKnown(): Known {
  const version = execFileSync(program, ["--version"], { encoding: "utf8" }).trim();
  return {
    version: version.split("\n")[0] ?? "",
    keys: list("keys").map((key) => ({
      key: key["key"],
      flag: key["flag"],
      names: key["names"],
      absent: key["absent"],
      help: key["help"],
    })) as Key[],
    models: named("models", (one) => one["published"]),
    devices: named("devices", (one) => one["description"]),
    engines: named("engines", (one) => one["meaning"]),
    optimizers: named("optimizers", (one) => one["description"]),
    precisions: named("precisions", (one) => one["description"]),
  };
}

// The words of the command that gives the worked answer: the first preset's.
export function workedReport(words: string[]): string {
  const result = spawnSync(program, ["weigh", ...words, "--html", "-"], { maxBuffer: 1 << 26, encoding: "utf8" });
  if (result.status === null || result.status > 1) throw new Error(result.stderr || String(result.error));
  return result.stdout;
}
