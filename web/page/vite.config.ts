// Static files in ../../build/page: index.html with the worked answer in it, a script, a style sheet, the worker and the core.

import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { defineConfig, type Plugin } from "vite";
import { cardsHtml, headHtml, partsOf, styleOf } from "./src/answer";
import { formHtml } from "./src/form";
import { escaped } from "./src/format";
import { presets } from "./src/presets";
import { deviceWords, stateOf } from "./src/state";
import { core, readKnown, workedReport } from "./known_data";
import { writeSingle } from "./single";

const SECURITY =
  "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'none'";

const outside = path.resolve(import.meta.dirname, "../../build/page");

// The service worker holds every file of this build, under a name that changes with any of them.
function holdOffline(): void {
  const script = path.join(outside, "service-worker.js");
  const files = readdirSync(outside, { recursive: true, withFileTypes: true })
    .filter((one) => one.isFile() && !["service-worker.js", "steelyard.html"].includes(one.name))
    .map((one) => path.relative(outside, path.join(one.parentPath, one.name)))
    .sort();
  const hash = createHash("sha256");
  for (const file of files) hash.update(file).update(readFileSync(path.join(outside, file)));
  const addresses = ["./", ...files.filter((file) => file !== "index.html")];
  const text = readFileSync(path.join(import.meta.dirname, "public/service-worker.js"), "utf8")
    .replace("%VERSION%", hash.digest("hex").slice(0, 16))
    .replace('["./"]', JSON.stringify(addresses));
  writeFileSync(script, text);
}

// The style sheet into the page itself, so that the first paint waits for nothing but the page. The policy names it by its hash.
function inlineStyle(): void {
  const assets = path.join(outside, "assets");
  const file = path.join(outside, "index.html");
  const html = readFileSync(file, "utf8");
  const link = /<link rel="stylesheet"[^>]*href="\.\/assets\/([^"]+)"[^>]*>/.exec(html);
  if (!link?.[1]) throw new Error("the page has no style sheet");
  const style = readFileSync(path.join(assets, link[1]), "utf8").trim();
  const hash = createHash("sha256").update(style).digest("base64");
  writeFileSync(
    file,
    html
      .replace(link[0], () => `<style>${style}</style>`)
      .replace("style-src 'self'", `style-src 'self' 'sha256-${hash}'`),
  );
  rmSync(path.join(assets, link[1]));
}

async function steelyard(): Promise<Plugin> {
  const known = readKnown();
  const first = presets[0];
  const state = first && (await stateOf(first.fragment));
  if (!state || typeof state.model !== "string") throw new Error("the first preset is the worked answer");
  const words: string[] = [state.model];
  for (const [key, value] of Object.entries(state.keys)) {
    const flag = known.keys.find((one) => one.key === key)?.flag;
    if (!flag) throw new Error(`the first preset has no key ${key}`);
    words.push(flag, value);
  }
  const report = workedReport(words);
  const parts = partsOf(report);
  // Tables that nobody sees before they are opened: the script brings them, and the first paint need not read them.
  const shown = { ...parts, sections: parts.sections.filter((one) => !/^(What was alive|Where each number)/.test(one.title)) };
  return {
    name: "steelyard",
    resolveId: (id) => (id === "virtual:steelyard" || id === "virtual:charts.css" ? `\0${id}` : undefined),
    load: (id) => {
      if (id === "\0virtual:steelyard") return `export default ${JSON.stringify(known)}`;
      if (id === "\0virtual:charts.css") return styleOf(report);
      return undefined;
    },
    transformIndexHtml: {
      order: "pre",
      handler: (html) =>
        html
          .replace("%CSP%", SECURITY)
          .replace("%PRESETS%", presets.map((one, i) => `<option value="${i}">${escaped(one.words)}</option>`).join(""))
          .replace("%HEAD%", () => headHtml(parts))
          .replace("%CARDS%", () => cardsHtml(shown, false))
          .replace("%FORM%", () => formHtml(known, state.model as string, deviceWords(state.keys), state.keys)),
    },
    closeBundle: async () => {
      mkdirSync(path.join(outside, "core"), { recursive: true });
      for (const file of ["steelyard-first.js", "steelyard-first.wasm", "steelyard.js", "steelyard.wasm"])
        copyFileSync(path.join(core, file), path.join(outside, "core", file));
      await writeSingle(outside, core, known, styleOf(report));
      inlineStyle();
      holdOffline();
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [steelyard()],
  worker: { format: "iife" },
  build: { outDir: outside, emptyOutDir: true, target: "es2022", modulePreload: { polyfill: false }, assetsInlineLimit: 0 },
  preview: { port: 4173, strictPort: true },
});
