// steelyard.html: the whole page as one file that opens from disk. A browser runs no module and no worker file from there, so
// the script is one piece, the worker starts from a Blob, and the core is packed into the text.

import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import type { Known } from "./src/known";

const SECURITY =
  "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval' blob:; worker-src blob:; style-src 'unsafe-inline'; img-src data: blob:";

// Text within a script: nothing of it can end the script.
function within(text: string): string {
  return text.replace(/<\/(script)/gi, "<\\/$1").replace(/<!--/g, "<\\!--");
}

async function bundled(entry: string, known: Known): Promise<string> {
  const result = await build({
    entryPoints: [path.join(import.meta.dirname, entry)],
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    target: "es2022",
    plugins: [
      {
        name: "single",
        setup: (plugin) => {
          plugin.onResolve({ filter: /^virtual:/ }, (asked) => ({ path: asked.path, namespace: "virtual" }));
          plugin.onResolve({ filter: /\/core_files$/ }, () => ({
            path: path.join(import.meta.dirname, "src/core_files_single.ts"),
          }));
          plugin.onLoad({ filter: /.*/, namespace: "virtual" }, (asked) =>
            asked.path.endsWith(".css")
              ? { contents: "", loader: "js" }
              : { contents: `export default ${JSON.stringify(known)}`, loader: "js" },
          );
        },
      },
    ],
  });
  return result.outputFiles[0]?.text ?? "";
}

export async function writeSingle(outside: string, core: string, known: Known, charts: string): Promise<void> {
  const script = await bundled("src/main.ts", known);
  const worker = await bundled("src/worker.ts", known);
  const loader = readFileSync(path.join(core, "steelyard.js"), "utf8");
  const wasm = gzipSync(readFileSync(path.join(core, "steelyard.wasm")), { level: 9 }).toString("base64");
  const style = readdirSync(path.join(outside, "assets"))
    .filter((name) => name.endsWith(".css"))
    .map((name) => readFileSync(path.join(outside, "assets", name), "utf8"))
    .join("");
  const html = readFileSync(path.join(outside, "index.html"), "utf8")
    .replace(/(http-equiv="Content-Security-Policy" content=")[^"]*/, (_all, head: string) => head + SECURITY)
    .replace(/<script type="module"[^>]*><\/script>/, "")
    .replace(/<link rel="(?:stylesheet|preload)"[^>]*>/g, "")
    .replace("</head>", () => `<style>${style.includes("--sy-ink") ? "" : charts}${style}</style></head>`)
    .replace(
      "</body>",
      () =>
        `<script type="text/plain" id="core-worker">${within(`${loader}\n${worker}`)}</script>` +
        `<script type="text/plain" id="core-wasm">${wasm}</script><script>${within(script)}</script></body>`,
    );
  writeFileSync(path.join(outside, "steelyard.html"), html);
}
