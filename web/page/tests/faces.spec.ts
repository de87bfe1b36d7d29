// Five faces, one number: terminal, JSON, Python, page and report are asked the same ten runs, and what each says is parsed.

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, open, test, verdict } from "./page";

const root = path.resolve(import.meta.dirname, "../../..");
const program = process.env["STEELYARD"] ?? path.join(root, "build/release/steelyard");
// `make verify-page` builds the module.
const module = process.env["STEELYARD_PYTHONPATH"] ?? path.join(root, "build/release/python/package");
const python = process.env["STEELYARD_PYTHON"] ?? path.join(root, "build/python-tools/bin/python");

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

function told(words: string[]): string {
  const done = spawnSync(program, ["weigh", ...words], { encoding: "utf8", maxBuffer: 1 << 26, env: { LANG: "C.UTF-8", COLUMNS: "400" } });
  expect(done.status, done.stderr).toBeLessThanOrEqual(1);
  return done.stdout;
}

interface Said {
  verdict: string;
  need: string;
  low: string;
  high: string;
  usable: string;
}

// "does not fit   needs 84.8 GiB (79.9 to 91.1), usable 79.1: 5.7 too much"
function parsed(line: string): Said {
  const match = /(fits|tight|does not fit)\s+needs ([\d.,]+) GiB \(([\d.,]+) to ([\d.,]+)\), usable ([\d.,]+)/.exec(line.replace(/\s+/g, " "));
  if (!match) throw new Error(`no verdict in ${line.slice(0, 200)}`);
  const [, words, need, low, high, usable] = match as unknown as string[];
  return { verdict: words as string, need: need as string, low: low as string, high: high as string, usable: usable as string };
}

// Bytes, with as many decimals as the words have.
function ofDocument(document: { verdict: string; device: { usable_bytes: number }; peak: Record<string, number> }, as: Said): Said {
  const gib = (bytes: number | undefined, like: string): string =>
    ((bytes ?? 0) / 2 ** 30).toFixed(like.split(".")[1]?.length ?? 0).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
  return {
    verdict: document.verdict.replace(/_/g, " "),
    need: gib(document.peak["device_bytes"], as.need),
    low: gib(document.peak["low_bytes"], as.low),
    high: gib(document.peak["high_bytes"], as.high),
    usable: gib(document.device.usable_bytes, as.usable),
  };
}

for (const [model, on, sequence] of RUNS)
  test(`${model} on ${on}, ${sequence} tokens`, async ({ page }) => {
    const words = [model, "--on", on, "--sequence-length", String(sequence)];
    const terminal = parsed(told([...words, "--quiet"]));
    const document = JSON.parse(told([...words, "--json"]));
    expect(ofDocument(document, terminal)).toEqual(terminal);

    const report = told([...words, "--html", "-"]);
    const chip = /<span class="verdict [a-z_]+">([^<]*)<\/span><h1>([\s\S]*?)<\/h1>/.exec(report);
    expect(parsed(`${chip?.[1]} ${chip?.[2]}`)).toEqual(terminal);
    const within = /<script type="application\/json" id="steelyard-answer">([\s\S]*?)<\/script>/.exec(report)?.[1] ?? "";
    expect(JSON.parse(within)).toEqual(document);

    await open(page, `#m=${model}&on=${on}&seq=${sequence}`);
    expect(parsed(await verdict(page))).toEqual(terminal);
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "JSON", exact: true }).click()]);
    const ofPage = JSON.parse(readFileSync(await download.path(), "utf8"));
    for (const key of ["verdict", "device", "parameters", "peak", "ranks", "time"]) expect(ofPage[key], key).toEqual(document[key]);
  });

test("Python says the same of all ten", () => {
  test.skip(!existsSync(path.join(module, "steelyard")), `no Python module in ${module}: make verify-page builds it`);
  const script = `
import json, sys
import steelyard
for model, on, sequence in json.load(sys.stdin):
    answer = steelyard.weigh(model, on=on, sequence_length=sequence)
    print(json.dumps({"verdict": str(answer.verdict), "device": answer.peak.device_bytes, "low": answer.peak.low_bytes, "high": answer.peak.high_bytes}))
`;
  const done = spawnSync(existsSync(python) ? python : "python3", ["-c", script], {
    input: JSON.stringify(RUNS),
    encoding: "utf8",
    env: { ...process.env, PYTHONPATH: module },
  });
  expect(done.status, done.stderr).toBe(0);
  const answers = done.stdout.trim().split("\n").map((line) => JSON.parse(line));
  expect(answers.length).toBe(RUNS.length);
  RUNS.forEach(([model, on, sequence], i) => {
    const document = JSON.parse(told([model, "--on", on, "--sequence-length", String(sequence), "--json"]));
    const { device_bytes: device, low_bytes: low, high_bytes: high } = document.peak;
    expect(answers[i]).toEqual({ verdict: document.verdict, device, low, high });
  });
});
