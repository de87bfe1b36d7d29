// Where the core lies when the page comes from a server: beside it, in core/. The first module is small, the other is all of it.

import type { CoreFiles, Part } from "./core";

const NAMES: Record<Part, string> = { first: "steelyard-first", whole: "steelyard" };
const address = (part: Part, ending: string): string => new URL(`core/${NAMES[part]}.${ending}`, document.baseURI).href;

export const files: CoreFiles = {
  hasFirst: true,
  makeWorker: () => new Worker(new URL("./worker.ts", import.meta.url)),
  script: (part) => address(part, "js"),
  wasm: async (part) => address(part, "wasm"),
};
