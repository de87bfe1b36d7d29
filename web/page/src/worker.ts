// The core in a worker: one question at a time, answered in order.
//
//   page -> worker   {start: {script, wasm}}                    addresses, or the texts themselves in the single file
//                    {id, verb, request, held: [{name, bytes}]} request is JSON
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
  held?: { name: string; bytes: ArrayBuffer }[];
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

function answer(module: Module, question: Question): unknown {
  const call = module.cwrap("steelyard_call", "string", ["string", "string"]);
  const hold = module.cwrap("steelyard_hold", null, ["string", "number", "number"]);
  const release = module.cwrap("steelyard_release", null, []);
  try {
    for (const file of question.held ?? []) {
      const bytes = new Uint8Array(file.bytes);
      const room = module._malloc(bytes.length + 1);
      if (room === 0) throw new Error(`no memory for ${file.name}, ${bytes.length} bytes`);
      module.HEAPU8.set(bytes, room);
      hold(file.name, room, bytes.length);
      module._free(room);
    }
    return JSON.parse(call(question.verb, question.request) as string);
  } finally {
    if (question.held?.length) release();
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
    here.postMessage({ id: message.id, reply: answer(await core, message) });
  } catch (fault) {
    here.postMessage({ id: message.id, fault: String(fault) });
  }
};
