// The core in a worker: one question at a time, answered in order.
//
//   page -> worker   {start: {script, wasm}}                    addresses, or the texts themselves in the single file
//                    {id, verb, request, held: [{name, file}]}  request is JSON; a file is read here, piece by piece
//   worker -> page   {ready: "0.1.0"}  {id, reply}  {progress: {done, all, best}}  {fault}
//
// A classic worker, because the single file starts it from a Blob: no module can be imported there.

interface Module {
  cwrap(name: string, returns: string | null, takes: string[]): (...args: unknown[]) => unknown;
  _malloc(size: number): number;
  _free(pointer: number): void;
  HEAPU8: Uint8Array;
  onProgress?: (done: number, all: number, best: number) => void;
}

interface Question {
  id: number;
  verb: string;
  request: string;
  held?: { name: string; file: Blob }[];
}

interface Here {
  postMessage(message: unknown): void;
  onmessage: ((event: MessageEvent) => void) | null;
  importScripts(address: string): void;
  createSteelyard(options: object): Promise<Module>;
}
const here = self as unknown as Here;

let core: Promise<Module> | undefined;

async function start(script: string | undefined, wasm: string | ArrayBuffer): Promise<Module> {
  // In the single file the loader stands in this very script.
  if (script !== undefined) here.importScripts(script);
  let told = 0;
  const module = await here.createSteelyard({
    ...(typeof wasm === "string" ? { locateFile: () => wasm } : { wasmBinary: wasm }),
    onProgress: (done: number, all: number, best: number) => {
      const now = performance.now();
      if (now - told < 100) return;
      told = now;
      here.postMessage({ progress: { done, all, best } });
    },
  });
  here.postMessage({ ready: module.cwrap("steelyard_version", "string", [])() });
  return module;
}

const PIECE = 16 * 2 ** 20;

// What is packed is unpacked by the browser: the core here has no zlib.
async function unpacked(file: Blob): Promise<Blob> {
  const start = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  if (start[0] !== 0x1f || start[1] !== 0x8b) return file;
  return new Response(file.stream().pipeThrough(new DecompressionStream("gzip"))).blob();
}

// Into the core's own memory, a piece at a time: a gigabyte is there once, and nowhere else.
async function hold(module: Module, name: string, packed: Blob): Promise<void> {
  const file = await unpacked(packed);
  // A pointer above 2 GiB comes as a negative number.
  const room = (module.cwrap("steelyard_room", "number", ["string", "number"])(name, file.size) as number) >>> 0;
  if (room === 0)
    throw new Error(
      `${name} has ${(file.size / 2 ** 30).toFixed(1)} GiB, more than a browser's tab can hold; in a terminal: steelyard diagnose ${name}`,
    );
  for (let at = 0; at < file.size; at += PIECE)
    module.HEAPU8.set(new Uint8Array(await file.slice(at, at + PIECE).arrayBuffer()), room + at);
}

// A request may hold a whole log: the stack, where a string would be put by itself, has a megabyte.
function call(module: Module, verb: string, request: string): string {
  const bytes = new TextEncoder().encode(request);
  const room = module._malloc(bytes.length + 1) >>> 0;
  if (room === 0) throw new Error(`no memory for a request of ${(bytes.length / 2 ** 20).toFixed(0)} MiB`);
  module.HEAPU8.set(bytes, room);
  module.HEAPU8[room + bytes.length] = 0;
  try {
    return module.cwrap("steelyard_call", "string", ["string", "number"])(verb, room) as string;
  } finally {
    module._free(room);
  }
}

async function answer(module: Module, question: Question): Promise<unknown> {
  try {
    for (const file of question.held ?? []) await hold(module, file.name, file.file);
    return JSON.parse(call(module, question.verb, question.request));
  } finally {
    if (question.held?.length) module.cwrap("steelyard_release", null, [])();
  }
}

here.onmessage = async (event: MessageEvent) => {
  const message = event.data as { start?: { script?: string; wasm: string | ArrayBuffer } } & Question;
  if (message.start) {
    core = start(message.start.script, message.start.wasm);
    core.catch((fault: unknown) => here.postMessage({ fault: String(fault) }));
    return;
  }
  if (!core) return;
  try {
    here.postMessage({ id: message.id, reply: await answer(await core, message) });
  } catch (fault) {
    here.postMessage({ id: message.id, fault: String(fault) });
  }
};
