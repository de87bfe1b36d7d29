// Plan: the layouts of this run on its devices, fastest first. A worker of its own searches, tells how far it is, and is ended
// when the run changes or the search is cancelled.

import { partsOf } from "./answer";
import type { App } from "./app";
import { Lane, Stopped, textOf } from "./core";
import { at, make, table } from "./dom";
import { drawn } from "./drawn";
import { count, gib, percent, seconds } from "./format";
import { runOf, stateFromRun } from "./state";

interface Row {
  layout: Record<string, string | number | boolean>;
  verdict: string;
  device_bytes: number;
  low_bytes: number;
  high_bytes: number;
  step_seconds: number;
  model_flops_utilization: number;
  run?: Record<string, unknown>;
}

// A layout is what the search chooses; a run that fixes it leaves nothing to search.
const CHOSEN = [
  "parallel.tensor",
  "parallel.pipeline",
  "parallel.virtual_pipeline",
  "parallel.context",
  "parallel.expert",
  "parallel.expert_tensor",
  "parallel.data",
  "parallel.zero_stage",
  "parallel.schedule",
  "parallel.sequence_parallel",
  "parallel.replicate",
  "training.micro_batch",
  "training.gradient_accumulation",
  "recompute.mode",
  "recompute.every",
  "recompute.layers",
];

export class Plan {
  private lane = new Lane("plan");
  private asked = "";
  private isOpen = false;

  constructor(
    private app: App,
    private leave: () => void,
  ) {
    app.onSettled(() => this.isOpen && this.ask());
    this.lane.onProgress = (progress) => this.progress(progress);
  }

  open(): void {
    this.isOpen = true;
    this.ask();
  }

  close(): void {
    this.isOpen = false;
    if (this.lane.busy) {
      this.lane.stop();
      this.asked = "";
    }
  }

  private ask(): void {
    const { run, set } = runOf(this.app.state);
    for (const key of CHOSEN) delete set[key];
    const request = { run, set };
    const wanted = JSON.stringify(request);
    if (wanted === this.asked) return;
    this.asked = wanted;
    if (this.lane.busy) this.lane.stop();
    this.waiting();
    this.lane
      .ask("plan", { ...request, ...drawn(), html: "plan.html" })
      .then((reply) => {
        if (this.asked !== wanted) return;
        if (reply.document?.problems) this.refuse(reply.document.problems);
        else this.show(reply.document, textOf(reply, "plan.html"));
      })
      .catch((fault: Error) => {
        if (fault instanceof Stopped || this.asked !== wanted) return;
        this.refuse([{ message: fault.message }]);
      });
  }

  private waiting(): void {
    const cancel = make("button", { type: "button", class: "plain" }, "cancel");
    cancel.addEventListener("click", () => {
      this.lane.stop();
      this.asked = "";
      this.refuse([{ message: "The search was cancelled.", help: "Change anything, or choose Plan again, and it starts afresh." }]);
    });
    const state = this.app.state;
    at("#plan").replaceChildren(
      make(
        "section",
        { class: "card" },
        make("h2", {}, "Searching the layouts"),
        make("p", { class: "quiet", id: "plan-progress" }, `${state.keys["cluster.devices"] ?? "1"} devices: weighing what is not certainly too large or too slow …`),
        make("progress", { id: "plan-bar", "aria-label": "layouts weighed" }),
        make("p", {}, cancel),
      ),
    );
  }

  private progress(progress: { done: number; all: number; best: number }): void {
    const words = document.querySelector("#plan-progress");
    if (!words) return;
    const best = progress.best > 0 ? ` · best so far ${seconds(progress.best)} a step` : "";
    words.textContent = `${count(progress.done)} of at most ${count(progress.all)} layouts${best}`;
    const bar = at<HTMLProgressElement>("#plan-bar");
    bar.max = progress.all;
    bar.value = progress.done;
  }

  private refuse(problems: { message: string; help?: string }[]): void {
    at("#plan").replaceChildren(
      make(
        "section",
        { class: "card" },
        make("h2", {}, "Not planned"),
        ...problems.map((one) => make("p", {}, make("b", {}, one.message), " ", make("span", { class: "quiet" }, one.help ?? ""))),
      ),
    );
  }

  // biome-ignore lint: steelyard.plan/1
  private show(document: any, report: string): void {
    const parts = partsOf(report);
    const rows = [...(document.layouts as Row[]), ...((document.tight ?? []) as Row[])];
    rows.sort((a, b) => a.step_seconds - b.step_seconds);
    const best = document.layouts[0] as Row | undefined;
    const head = make("section", { class: "card", id: "plan-head" });
    if (best) {
      head.append(
        make(
          "p",
          { class: "line" },
          make("span", { class: `verdict ${best.verdict}` }, "best"),
          make("span", { class: "asked" }, make("b", {}, seconds(best.step_seconds)), " a step"),
          make("span", { class: "band" }, `${gib(best.device_bytes)} GiB · ${percent(best.model_flops_utilization)} MFU · ${words(best)}`),
        ),
      );
    } else
      head.append(
        make("p", { class: "line" }, make("span", { class: `verdict ${document.verdict}` }, "none fits"), parts.line),
      );
    const counts = document.counts;
    head.append(
      make(
        "p",
        { class: "quiet" },
        `${count(counts.layouts)} layouts: ${count(counts.fits)} fit, ${count(counts.tight)} tight, ${count(counts.too_large + counts.certainly_too_large)} too large, ${count(counts.cannot_be_faster)} cannot be faster, ${count(counts.not_allowed)} not allowed. The split, the micro-batch and recomputation are searched; the rest of the run is as it stands on the left${this.app.state.keys["engine"] ? "" : ", with any engine"}.`,
      ),
    );
    const figure = make("figure", { id: "plan-figure" });
    figure.innerHTML = parts.sections.find((one) => one.figure)?.figure ?? "";
    const text = make("details", { class: "table" }, make("summary", {}, "All that the terminal says"));
    const pre = make("div", { class: "scroll" });
    pre.innerHTML = parts.sections.find((one) => one.rest.includes("<pre>"))?.rest ?? "";
    text.append(pre);
    at("#plan").replaceChildren(
      head,
      make("section", { class: "card" }, make("h2", {}, "Layouts, fastest first"), this.tableOf(rows)),
      make("section", { class: "card" }, make("h2", {}, "Time against memory"), figure, text),
    );
  }

  private tableOf(rows: Row[]): HTMLElement {
    const element = table(
      ["", "", "engine", "tp#", "pp#", "dp#", "cp#", "ep#", "zero#", "mbs#", "recompute", "peak, GiB#", "step#", "MFU#"],
      rows.map((row) => {
        const use = make("button", { type: "button", class: "plain use" }, "use");
        use.disabled = row.run === undefined;
        use.addEventListener("click", () => {
          if (!row.run) return;
          const state = stateFromRun(row.run, this.app.state.called);
          this.app.replace({ ...state, model: this.app.state.model, ...(this.app.state.called ? { called: this.app.state.called } : {}) });
          this.leave();
        });
        const l = row.layout;
        const stages = `${l["pipeline"]}${Number(l["virtual_pipeline"]) > 1 ? `×${l["virtual_pipeline"]}` : ""}`;
        return [
          use,
          make("span", { class: `verdict small ${row.verdict}` }, row.verdict.replace(/_/g, " ")),
          String(l["engine"]),
          String(l["tensor"]),
          stages,
          String(l["data"]),
          String(l["context"]),
          String(l["expert"]),
          String(l["zero_stage"]),
          String(l["micro_batch"]),
          String(l["recompute"]),
          row.verdict === "tight" ? `${gib(row.low_bytes)}–${gib(row.high_bytes)}` : gib(row.device_bytes),
          seconds(row.step_seconds),
          percent(row.model_flops_utilization),
        ];
      }),
    );
    return make("div", { class: "scroll" }, element);
  }
}

function words(row: Row): string {
  const l = row.layout;
  return `${l["engine"]} tensor ${l["tensor"]} · pipeline ${l["pipeline"]} · data ${l["data"]} · ZeRO ${l["zero_stage"]} · micro-batch ${l["micro_batch"]}`;
}
