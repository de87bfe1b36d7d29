// What the page asks about, and how the address says it.
//
//   #m=llama-3.1-8b&on=8xh100-sxm-80gb&engine=fsdp2&seq=16384&zero=3
//
// Everything stands behind the #, which no browser sends to a server. Keys of the run file that have no short name go by their
// own (training.loss=chunked). A model of one's own and whatever is no single value are packed: z=, deflated, base64url.

export type Tab = "weigh" | "plan" | "diagnose" | "learn";
export type Model = string | Record<string, unknown>;

export interface State {
  tab: Tab;
  model: Model;
  // What the model's file was called, where it is no preset.
  called?: string;
  keys: Record<string, string>;
  // Of a dropped launch file: tables that no field shows. They go with the run.
  rest?: Record<string, unknown>;
  pile?: string;
}

export const SHORT: Record<string, string> = {
  engine: "engine",
  seq: "training.sequence_length",
  mbs: "training.micro_batch",
  gbs: "training.global_batch",
  accum: "training.gradient_accumulation",
  zero: "parallel.zero_stage",
  tp: "parallel.tensor",
  pp: "parallel.pipeline",
  vpp: "parallel.virtual_pipeline",
  cp: "parallel.context",
  ep: "parallel.expert",
  dp: "parallel.data",
  recompute: "recompute.mode",
  precision: "training.precision",
  optimizer: "training.optimizer",
  attention: "training.attention",
  loss: "training.loss",
};
const SHORT_OF = new Map(Object.entries(SHORT).map(([short, key]) => [key, short]));
const TABS: readonly Tab[] = ["weigh", "plan", "diagnose", "learn"];

// A link longer than this is cut by mail programs and chats.
export const LONGEST_LINK = 8192;

export function deviceWords(keys: Record<string, string>): string {
  const device = keys["cluster.device"] ?? "";
  const count = keys["cluster.devices"];
  return count ? `${count}x${device}` : device;
}

function splitDevice(words: string): [string | undefined, string] {
  const match = /^\s*(\d+)\s*x\s*(.+)$/i.exec(words);
  return match ? [match[1], (match[2] as string).trim()] : [undefined, words.trim()];
}

// "8 x h100" into the two keys that it stands for; a device alone leaves the count as it is.
export function setDevice(keys: Record<string, string>, words: string): void {
  const [count, device] = splitDevice(words);
  if (device) keys["cluster.device"] = device;
  else delete keys["cluster.device"];
  if (count) keys["cluster.devices"] = count;
}

async function through(stream: TransformStream, bytes: Uint8Array): Promise<Uint8Array> {
  const result = new Response(new Blob([bytes as BlobPart]).stream().pipeThrough(stream));
  return new Uint8Array(await result.arrayBuffer());
}

export async function packed(value: unknown): Promise<string> {
  const bytes = await through(
    new CompressionStream("deflate-raw"),
    new TextEncoder().encode(JSON.stringify(value)),
  );
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

export async function unpacked(text: string): Promise<unknown> {
  const binary = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
  const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
  return JSON.parse(
    new TextDecoder().decode(await through(new DecompressionStream("deflate-raw"), bytes)),
  );
}

// ":", "/" and "," stay as they are, because a link is read by people.
function encoded(text: string): string {
  return encodeURIComponent(text).replace(/%2F/g, "/").replace(/%3A/g, ":").replace(/%2C/g, ",");
}

export async function fragmentOf(state: State): Promise<string> {
  const parts: string[] = [];
  if (state.tab !== "weigh") parts.push(`tab=${state.tab}`);
  if (typeof state.model === "string") parts.push(`m=${encoded(state.model)}`);
  const on = deviceWords(state.keys);
  if (on) parts.push(`on=${encoded(on)}`);
  for (const [key, value] of Object.entries(state.keys)) {
    if (key === "cluster.device" || key === "cluster.devices" || value === "") continue;
    parts.push(`${SHORT_OF.get(key) ?? encoded(key)}=${encoded(value)}`);
  }
  if (state.pile) parts.push(`pile=${state.pile}`);
  if (typeof state.model !== "string" || (state.rest && Object.keys(state.rest).length > 0))
    parts.push(
      `z=${await packed({
        ...(typeof state.model === "string" ? {} : { model: state.model, called: state.called }),
        rest: state.rest ?? {},
      })}`,
    );
  return `#${parts.join("&")}`;
}

// Nothing where the fragment says nothing of a run: the page then shows its worked answer.
export async function stateOf(fragment: string): Promise<State | undefined> {
  const text = fragment.replace(/^#/, "");
  if (text === "") return undefined;
  const state: State = { tab: "weigh", model: "", keys: {} };
  for (const part of text.split("&")) {
    const at = part.indexOf("=");
    if (at < 0) continue;
    const name = part.slice(0, at);
    let value: string;
    try {
      value = decodeURIComponent(part.slice(at + 1));
    } catch {
      continue;
    }
    if (name === "tab") state.tab = TABS.find((tab) => tab === value) ?? "weigh";
    else if (name === "m") state.model = value;
    else if (name === "on") setDevice(state.keys, value);
    else if (name === "pile") state.pile = value;
    else if (name === "z") {
      try {
        const packet = (await unpacked(value)) as {
          model?: Record<string, unknown>;
          called?: string;
          rest?: Record<string, unknown>;
        };
        if (packet.model) state.model = packet.model;
        if (packet.called) state.called = packet.called;
        if (packet.rest && Object.keys(packet.rest).length > 0) state.rest = packet.rest;
      } catch {
        // A link that was cut: what is readable is still shown, and the core says what is missing.
      }
    } else state.keys[SHORT[name] ?? decodeURIComponent(name)] = value;
  }
  return state;
}

// The request of any command that takes a run.
export function runOf(state: State): { run: object; set: Record<string, string> } {
  const set: Record<string, string> = {};
  for (const [key, value] of Object.entries(state.keys)) if (value !== "") set[key] = value;
  return { run: { model: state.model, ...(state.rest ?? {}) }, set };
}

// A run file as tables, as import answers: single values become fields, the rest stays.
export function stateFromRun(run: Record<string, unknown>, called: string | undefined): State {
  const state: State = { tab: "weigh", model: "", keys: {} };
  const rest: Record<string, unknown> = {};
  const single = (value: unknown): value is string | number | boolean =>
    ["string", "number", "boolean"].includes(typeof value);
  const keep = (table: string, key: string, value: unknown): void => {
    ((rest[table] ??= {}) as Record<string, unknown>)[key] = value;
  };
  for (const [name, value] of Object.entries(run)) {
    if (name === "model") {
      if (typeof value !== "string" && called) state.called = called;
      state.model = value as Model;
    } else if (single(value)) state.keys[name] = String(value);
    else if (value !== null && typeof value === "object" && !Array.isArray(value) && name !== "carried")
      for (const [key, inner] of Object.entries(value)) {
        if (single(inner)) state.keys[`${name}.${key}`] = String(inner);
        else if (Array.isArray(inner) && inner.length > 0 && inner.every((one) => typeof one === "string" && !one.includes(",")))
          state.keys[`${name}.${key}`] = inner.join(",");
        else keep(name, key, inner);
      }
    else rest[name] = value;
  }
  if (Object.keys(rest).length > 0) state.rest = rest;
  return state;
}
