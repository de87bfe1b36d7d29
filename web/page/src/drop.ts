// Any file, dropped anywhere: its kind is told by what is in it, and the page goes to where it belongs.

import type { App } from "./app";
import { at, say } from "./dom";
import { deviceWords, setDevice, stateFromRun } from "./state";
import type { Tabs } from "./tabs";

// Texts that a run dies with, and what a snapshot's bytes begin with.
const DIED = /out of memory|OutOfMemoryError|Tried to allocate|HIP out of|Traceback \(most recent/i;
const LARGEST_TEXT = 32 * 2 ** 20;

export class Drop {
  constructor(
    private app: App,
    private tabs: Tabs,
  ) {
    const veil = at("#drop");
    let depth = 0;
    const over = (event: DragEvent): boolean => [...(event.dataTransfer?.types ?? [])].includes("Files");
    addEventListener("dragenter", (event) => {
      if (!over(event)) return;
      depth += 1;
      veil.hidden = false;
    });
    addEventListener("dragleave", () => {
      depth = Math.max(0, depth - 1);
      if (depth === 0) veil.hidden = true;
    });
    addEventListener("dragover", (event) => event.preventDefault());
    addEventListener("drop", (event) => {
      event.preventDefault();
      depth = 0;
      veil.hidden = true;
      void this.take([...(event.dataTransfer?.files ?? [])]);
    });
    addEventListener("paste", (event) => {
      const text = event.clipboardData?.getData("text") ?? "";
      if ((event.target as HTMLElement).matches("input, textarea") || text.length < 40) return;
      void this.take([new File([text], "pasted.txt")]);
    });
  }

  async take(files: File[]): Promise<void> {
    if (files.length === 0) return;
    const texts: Record<string, string> = {};
    let evidence = false;
    for (const file of files) {
      const start = new Uint8Array(await file.slice(0, 64).arrayBuffer());
      const binary = start.some((byte) => byte < 9);
      if (binary || file.size > LARGEST_TEXT) evidence = true;
      else {
        const text = await file.text();
        texts[file.name] = text;
        evidence ||= DIED.test(text);
      }
    }
    if (evidence) {
      this.tabs.show("diagnose");
      return this.tabs.diagnose.files(files);
    }
    await this.run(texts);
  }

  private async run(texts: Record<string, string>): Promise<void> {
    const names = Object.keys(texts);
    const first = names[0] as string;
    const config = this.modelOf(texts[first] as string);
    if (config) {
      this.app.change((state) => {
        state.model = config;
        state.called = first;
      });
      say(`${first}: the model of this run`);
      return this.tabs.show("weigh");
    }
    const on = deviceWords(this.app.state.keys);
    const reply = await this.app.slow.ask("import", { run: names, files: texts, ...(on ? { on } : {}) });
    const document = reply.document;
    if (!document?.run) {
      say(document?.problems?.[0]?.message ?? `${first} is no file that is known here`);
      return;
    }
    const state = stateFromRun(document.run, first);
    if (!state.keys["cluster.device"]) setDevice(state.keys, on);
    this.app.replace(state);
    this.tabs.show("weigh");
    const warned = (document.warnings ?? document.problems ?? []).length as number;
    say(`${names.join(", ")}: ${(document.formats ?? ["read"]).join(", ")}${warned ? ` · ${warned} remarks` : ""}`);
  }

  // A config.json of a model: a table with an architecture or a type.
  private modelOf(text: string): Record<string, unknown> | undefined {
    try {
      const value = JSON.parse(text) as Record<string, unknown>;
      if (value && typeof value === "object" && ("model_type" in value || "architectures" in value)) return value;
    } catch {
      // No JSON: a run file or a launch file.
    }
    return undefined;
  }
}
