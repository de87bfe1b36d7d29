// The left column: what is asked. The same function makes it at the build, for the page without a script, and here.
//
// Every field is named by its key of the run file; an empty one is absent from the run, and its placeholder says what the core
// then takes. The fields that everybody turns stand in groups; all other keys of the run file are under "more".

import { escaped } from "./format";
import type { Key, Known, Named } from "./known";

interface Field {
  key: string;
  label: string;
  kind: "slider" | "steps" | "choice" | "text" | "segments";
  // Of sliders: the ends as powers of two.
  low?: number;
  high?: number;
  list?: "devices" | "models";
  choices?: string[];
}

interface Group {
  title: string;
  fields: Field[];
}

export const groups: Group[] = [
  {
    title: "Batch",
    fields: [
      { key: "training.sequence_length", label: "sequence", kind: "slider", low: 7, high: 20 },
      { key: "training.micro_batch", label: "micro-batch", kind: "slider", low: 0, high: 7 },
      { key: "training.global_batch", label: "global batch", kind: "slider", low: 0, high: 14 },
    ],
  },
  {
    title: "How it is split",
    fields: [
      { key: "parallel.zero_stage", label: "ZeRO stage", kind: "segments", choices: ["0", "1", "2", "3"] },
      { key: "parallel.tensor", label: "tensor", kind: "steps" },
      { key: "parallel.pipeline", label: "pipeline", kind: "steps" },
      { key: "parallel.context", label: "context", kind: "steps" },
      { key: "parallel.expert", label: "expert", kind: "steps" },
    ],
  },
  {
    title: "What is kept",
    fields: [
      { key: "recompute.mode", label: "recompute", kind: "choice" },
      { key: "training.precision", label: "precision", kind: "choice" },
      { key: "training.optimizer", label: "optimizer", kind: "choice" },
      { key: "training.attention", label: "attention", kind: "choice" },
      { key: "training.loss", label: "loss", kind: "choice" },
    ],
  },
];

const shown = new Set([
  "model",
  "engine",
  "cluster.device",
  "cluster.devices",
  ...groups.flatMap((group) => group.fields.map((field) => field.key)),
]);
export function isFold(key: string): boolean {
  return !shown.has(key);
}

export function idOf(key: string): string {
  return `k-${key.replace(/[._]/g, "-")}`;
}

function options(names: Named[], value: string, absent: string): string {
  const rows = names.map(
    (one) =>
      `<option value="${escaped(one.name)}"${one.name === value ? " selected" : ""}>${escaped(one.name)}</option>`,
  );
  const other =
    value !== "" && !names.some((one) => one.name === value)
      ? `<option selected>${escaped(value)}</option>`
      : "";
  return `<option value="">${escaped(absent)}</option>${other}${rows.join("")}`;
}

function choicesOf(known: Known, key: Key): Named[] {
  if (key.key === "engine") return known.engines;
  if (key.key === "training.optimizer") return known.optimizers;
  if (key.key === "training.precision") return known.precisions;
  return key.names.map((name) => ({ name, words: "" }));
}

function control(known: Known, field: Field, key: Key, value: string): string {
  const id = idOf(key.key);
  const common = `id="${id}" data-key="${key.key}" title="${escaped(key.help)}"`;
  const typed = `<input ${common} class="number" inputmode="numeric" autocomplete="off" spellcheck="false" value="${escaped(value)}" placeholder="auto">`;
  switch (field.kind) {
    case "slider":
      return `${typed}<input type="range" class="slide" data-slide="${key.key}" aria-label="${escaped(field.label)}, slider" min="${field.low}" max="${field.high}" step="${field.key === "training.sequence_length" ? "0.125" : "1"}" value="${position(value, field.low as number)}">`;
    case "steps":
      return `<span class="steps"><button type="button" data-step="-1" data-of="${key.key}" aria-label="half of ${escaped(field.label)}">−</button>${typed}<button type="button" data-step="1" data-of="${key.key}" aria-label="twice ${escaped(field.label)}">+</button></span>`;
    case "segments":
      return `<span class="segments" role="radiogroup" aria-label="${escaped(field.label)}">${["", ...(field.choices ?? [])]
        .map(
          (choice) =>
            `<label><input type="radio" name="${id}" data-key="${key.key}" value="${choice}"${choice === value ? " checked" : ""}><span>${choice || "auto"}</span></label>`,
        )
        .join("")}</span>`;
    case "choice":
      return `<select ${common}>${options(choicesOf(known, key), value, `${key.absent || "auto"}`)}</select>`;
    default:
      return `<input ${common} autocomplete="off" spellcheck="false" value="${escaped(value)}" placeholder="${escaped(key.absent)}">`;
  }
}

export function position(value: string, low: number): number {
  const number = Number(value);
  return number > 0 ? Math.log2(number) : low;
}

function row(known: Known, field: Field, values: Record<string, string>): string {
  const key = known.keys.find((one) => one.key === field.key);
  if (!key) throw new Error(`no key ${field.key} in the run file`);
  const label =
    field.kind === "segments"
      ? `<span class="label">${escaped(field.label)}</span>`
      : `<label class="label" for="${idOf(key.key)}">${escaped(field.label)}</label>`;
  return `<div class="field is-${field.kind}" data-field="${key.key}">${label}${control(known, field, key, values[key.key] ?? "")}<p class="says" hidden></p></div>`;
}

function datalist(id: string, names: Named[]): string {
  return `<datalist id="${id}">${names.map((one) => `<option value="${escaped(one.name)}">${escaped(one.words)}</option>`).join("")}</datalist>`;
}

// Every other key, by its table. Its place is made when "more" is opened: two hundred fields cost a phone time.
export function moreHtml(known: Known, values: Record<string, string>): string {
  const tables = new Map<string, Key[]>();
  for (const key of known.keys) {
    if (!isFold(key.key)) continue;
    const table = key.key.includes(".") ? (key.key.split(".")[0] as string) : "run";
    tables.set(table, [...(tables.get(table) ?? []), key]);
  }
  return [...tables]
    .map(
      ([table, keys]) =>
        `<h3>${escaped(table)}</h3>${keys
          .map((key) =>
            row(
              known,
              {
                key: key.key,
                label: (key.key.split(".").pop() as string).replace(/_/g, " "),
                kind: key.names.length > 0 ? "choice" : "text",
              },
              values,
            ),
          )
          .join("")}`,
    )
    .join("");
}

export function formHtml(known: Known, model: string, on: string, values: Record<string, string>): string {
  const engine = known.keys.find((key) => key.key === "engine") as Key;
  const more = known.keys.filter((key) => isFold(key.key)).length;
  return `
<div class="group">
<div class="field is-text" data-field="model"><label class="label" for="k-model">model</label><input id="k-model" list="models" autocomplete="off" spellcheck="false" value="${escaped(model)}" placeholder="llama-3.1-8b, 7b, a hub id" title="preset, Hugging Face id or link, or a size like 7b; or drop a config.json"><p class="says" hidden></p></div>
<div class="field is-text" data-field="cluster.device"><label class="label" for="k-on">on</label><input id="k-on" list="devices" autocomplete="off" spellcheck="false" value="${escaped(on)}" placeholder="8xh100-sxm-80gb" title="how many of which device: 8xh100, 24gb"><p class="says" hidden></p></div>
<div class="field lone"><input type="range" class="slide" data-slide="cluster.devices" aria-label="devices, slider" min="0" max="14" step="1" value="${position(values["cluster.devices"] ?? "1", 0)}"></div>
<div class="field is-choice" data-field="engine"><label class="label" for="k-engine">engine</label><select id="k-engine" data-key="engine" title="${escaped(engine.help)}">${options(known.engines, values["engine"] ?? "", engine.absent)}</select><p class="says" hidden></p></div>
</div>
${groups
  .map(
    (group) =>
      `<div class="group"${group.title === "How it is split" ? ' data-group="split"' : ""}><h2>${escaped(group.title)}</h2>${group.fields.map((field) => row(known, field, values)).join("")}</div>`,
  )
  .join("")}
<details class="group more" id="more"><summary>more <span class="quiet">${more} keys</span></summary><input id="more-find" type="search" placeholder="find a key" aria-label="find a key"><div id="more-fields"></div></details>`;
}

// What the combo boxes offer. Hundreds of rows that nobody sees at first: the script adds them.
export function listsHtml(known: Known): string {
  return `${datalist("models", known.models)}${datalist("devices", known.devices.flatMap((one) => [{ name: `8x${one.name}`, words: one.words }, { name: `1x${one.name}`, words: "" }]))}`;
}
