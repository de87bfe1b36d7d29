// Questions to the core, each lane a worker of its own.
//
//   const quick = new Lane("quick");
//   const reply = await quick.ask("weigh", {run: {model: "llama-3.1-8b"}, set: {...}});
//   const newest = await quick.newest("bar", "estimate", request);   undefined: a newer one took its place
//   lane.stop();                                                     ends what it does; the next question starts afresh
//
// The first module is small and knows what a drag asks; the whole core is downloaded behind it. A lane that begins with the first
// takes the whole when it is told to, or when a question is beyond the first.

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
  // Of a file that is no UTF-8: base64.
  files: { name: string; text?: string; base64?: string }[];
}

export interface HeldFile {
  name: string;
  file: Blob;
}

// Of a reply of the first module: the whole core knows it.
const ELSEWHERE = 3;

export function textOf(reply: Reply, name: string): string {
  return reply.files.find((file) => file.name === name)?.text ?? "";
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
export type Part = "first" | "whole";
export interface CoreFiles {
  // False: there is the whole core alone.
  hasFirst: boolean;
  makeWorker(): Worker;
  script?(part: Part): string;
  wasm(part: Part): Promise<string | ArrayBuffer>;
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
  private growing?: Promise<void>;
  // Of workers: one that is ready after the lane was stopped is not taken.
  private era = 0;
  private queue: Waiting[] = [];
  // What the first module does not know, until the whole core is there.
  private beyond: Waiting[] = [];
  private running?: Waiting;
  private count = 0;

  constructor(
    readonly name: string,
    private part: Part = "whole",
  ) {}

  start(): Promise<void> {
    if (!files?.hasFirst) this.part = "whole";
    this.starting ??= this.takeOne(this.part);
    return this.starting;
  }

  // From the first module to the whole core, without a gap: the first answers until the other is ready.
  grow(): Promise<void> {
    if (this.part === "whole") return this.start();
    this.growing ??= this.takeOne("whole").catch((fault: Error) => {
      delete this.growing;
      throw fault;
    });
    return this.growing;
  }

  ask(verb: string, request: object, held: HeldFile[] = []): Promise<Reply> {
    return new Promise((resolve, reject) =>
      this.push({ verb, request, held, resolve: (reply) => resolve(reply as Reply), reject }),
    );
  }

  // A newer question of the same slot takes the place of one that has not begun.
  newest(slot: string, verb: string, request: object): Promise<Reply | undefined> {
    return new Promise((resolve, reject) => {
      for (const list of [this.queue, this.beyond]) {
        const older = list.findIndex((one) => one.slot === slot);
        if (older >= 0) list.splice(older, 1)[0]?.resolve(undefined);
      }
      this.push({ slot, verb, request, held: [], resolve, reject });
    });
  }

  get busy(): boolean {
    return this.running !== undefined || this.queue.length + this.beyond.length > 0;
  }

  stop(): void {
    this.end(new Stopped());
  }

  private async workerOf(part: Part): Promise<Worker> {
    if (!files) throw new Error("the core has no place");
    const worker = files.makeWorker();
    const wasm = await files.wasm(part);
    const script = files.script?.(part);
    await new Promise<void>((resolve, reject) => {
      worker.onerror = (event) => reject(new Error(event.message || "the core did not start"));
      worker.onmessage = (event) => {
        const data = event.data as { ready?: string; fault?: string };
        if (data.ready !== undefined) {
          this.version = data.ready;
          resolve();
        } else if (data.fault) reject(new Error(data.fault));
      };
      worker.postMessage({ start: { ...(script ? { script } : {}), wasm } });
    });
    return worker;
  }

  private async takeOne(part: Part): Promise<void> {
    const era = this.era;
    const worker = await this.workerOf(part);
    if (era !== this.era) return worker.terminate();
    this.worker?.terminate();
    this.worker = worker;
    this.part = part;
    this.starting = Promise.resolve();
    worker.onmessage = (event) => this.hear(event.data);
    worker.onerror = (event) => this.fail(event.message);
    this.queue.unshift(...(this.running ? [this.running] : []), ...this.beyond);
    delete this.running;
    this.beyond = [];
    this.next();
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
    if (data.reply && data.reply.status === ELSEWHERE && this.part === "first") {
      this.beyond.push(one);
      this.grow().catch((fault: Error) => this.fail(fault.message));
      this.next();
      return;
    }
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
    const ended = [...(this.running ? [this.running] : []), ...this.queue, ...this.beyond];
    delete this.running;
    this.queue = [];
    this.beyond = [];
    this.forget();
    for (const one of ended) one.reject(fault);
  }

  // The next question starts another worker.
  private forget(): void {
    this.era += 1;
    this.worker?.terminate();
    delete this.worker;
    delete this.starting;
    delete this.growing;
  }
}
