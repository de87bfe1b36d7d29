// Questions to the core, each lane a worker of its own.
//
//   const quick = new Lane("quick");
//   const reply = await quick.ask("weigh", {run: {model: "llama-3.1-8b"}, set: {...}});
//   const newest = await quick.newest("bar", "estimate", request);   undefined: a newer one took its place
//   lane.stop();                                                     ends what it does; the next question starts afresh

export interface Problem {
  code: string;
  message: string;
  file?: string;
  line?: number;
  help?: string;
}

export interface Reply {
  status: number;
  // biome-ignore lint: documents have the shapes of docs/schemas
  document?: any;
  text?: string;
  remarks: string;
  files: { name: string; text: string }[];
}

export interface HeldFile {
  name: string;
  bytes: ArrayBuffer;
}

export interface Progress {
  done: number;
  all: number;
  best: number;
}

export class Stopped extends Error {
  constructor() {
    super("stopped");
  }
}

// Where the core is: set once by main.ts, differently in the single file.
export interface CoreFiles {
  makeWorker(): Worker;
  script?: string;
  wasm(): Promise<string | ArrayBuffer>;
}

interface Waiting {
  slot?: string;
  verb: string;
  request: object;
  held: HeldFile[];
  resolve(reply: Reply | undefined): void;
  reject(fault: Error): void;
}

let files: CoreFiles | undefined;
export function coreIs(at: CoreFiles): void {
  files = at;
}

export class Lane {
  onProgress?: (progress: Progress) => void;
  version = "";
  private worker?: Worker;
  private starting?: Promise<void>;
  private queue: Waiting[] = [];
  private running?: Waiting;
  private count = 0;

  constructor(readonly name: string) {}

  start(): Promise<void> {
    this.starting ??= this.begin();
    return this.starting;
  }

  ask(verb: string, request: object, held: HeldFile[] = []): Promise<Reply> {
    return new Promise((resolve, reject) =>
      this.push({ verb, request, held, resolve: (reply) => resolve(reply as Reply), reject }),
    );
  }

  // A newer question of the same slot takes the place of one that has not begun.
  newest(slot: string, verb: string, request: object): Promise<Reply | undefined> {
    return new Promise((resolve, reject) => {
      const older = this.queue.findIndex((one) => one.slot === slot);
      if (older >= 0) this.queue.splice(older, 1)[0]?.resolve(undefined);
      this.push({ slot, verb, request, held: [], resolve, reject });
    });
  }

  get busy(): boolean {
    return this.running !== undefined || this.queue.length > 0;
  }

  stop(): void {
    this.end(new Stopped());
  }

  private async begin(): Promise<void> {
    if (!files) throw new Error("the core has no place");
    const worker = files.makeWorker();
    this.worker = worker;
    const wasm = await files.wasm();
    await new Promise<void>((resolve, reject) => {
      worker.onerror = (event) => reject(new Error(event.message || "the core did not start"));
      worker.onmessage = (event) => {
        const data = event.data as { ready?: string; fault?: string };
        if (data.ready !== undefined) {
          this.version = data.ready;
          resolve();
        } else if (data.fault) reject(new Error(data.fault));
      };
      worker.postMessage({ start: { ...(files?.script ? { script: files.script } : {}), wasm } });
    });
    worker.onmessage = (event) => this.hear(event.data);
    worker.onerror = (event) => this.fail(event.message);
  }

  private push(one: Waiting): void {
    this.queue.push(one);
    this.start().then(
      () => this.next(),
      (fault: Error) => this.fail(fault.message),
    );
  }

  private next(): void {
    if (this.running || !this.worker) return;
    const one = this.queue.shift();
    if (!one) return;
    this.running = one;
    this.worker.postMessage({
      id: ++this.count,
      verb: one.verb,
      request: JSON.stringify(one.request),
      held: one.held,
    });
  }

  private hear(data: { id?: number; reply?: Reply; fault?: string; progress?: Progress }): void {
    if (data.progress) return this.onProgress?.(data.progress);
    if (data.id !== this.count || !this.running) return;
    const one = this.running;
    delete this.running;
    if (data.reply) one.resolve(data.reply);
    else {
      // A module that ran out of memory answers nothing sensible afterwards.
      one.reject(new Error(data.fault ?? "the core gave no answer"));
      this.forget();
      if (this.queue.length === 0) return;
      this.start().then(() => this.next(), (fault: Error) => this.fail(fault.message));
      return;
    }
    this.next();
  }

  private fail(message: string): void {
    this.end(new Error(message));
  }

  private end(fault: Error): void {
    const ended = [...(this.running ? [this.running] : []), ...this.queue];
    delete this.running;
    this.queue = [];
    this.forget();
    for (const one of ended) one.reject(fault);
  }

  // The next question starts another worker.
  private forget(): void {
    this.worker?.terminate();
    delete this.worker;
    delete this.starting;
  }
}
