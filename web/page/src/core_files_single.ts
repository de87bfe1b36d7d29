// Where the core lies in the single file: in two scripts of the page itself. There is nothing to wait for, so every lane has the
// whole of it.

import type { CoreFiles } from "./core";
import { at } from "./dom";

let unpacked: Promise<ArrayBuffer> | undefined;

async function unpack(): Promise<ArrayBuffer> {
  const text = atob(at("#core-wasm").textContent ?? "");
  const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
  return new Response(
    new Blob([bytes as BlobPart]).stream().pipeThrough(new DecompressionStream("gzip")),
  ).arrayBuffer();
}

export const files: CoreFiles = {
  hasFirst: false,
  makeWorker: () =>
    new Worker(
      URL.createObjectURL(new Blob([at("#core-worker").textContent ?? ""], { type: "text/javascript" })),
    ),
  wasm: () => (unpacked ??= unpack()),
};
