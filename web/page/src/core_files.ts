// Where the core lies when the page comes from a server: beside it, in core/.

import type { CoreFiles } from "./core";

export const files: CoreFiles = {
  makeWorker: () => new Worker(new URL("./worker.ts", import.meta.url)),
  script: new URL("core/steelyard.js", document.baseURI).href,
  wasm: async () => new URL("core/steelyard.wasm", document.baseURI).href,
};
