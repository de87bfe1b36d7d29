// The run that the page is about, and what follows when it changes.
//
//   app.change((state) => (state.keys["training.micro_batch"] = "2"));            a gesture: an entry in the history
//   app.change(..., "drag");                                                       a frame of one: none
//   app.onSettled((run) => ...);                                                   the answer to the newest state
//
// A frame of a drag asks the estimate and draws its bar; when the hand rests the whole report is asked, then the search for
// changes that fit, then the verdicts along the sequence slider. Newer questions take the place of waiting ones.

import { cardsHtml, headHtml, lineHtml, type Parts, partsOf, verdictWords } from "./answer";
import { Lane, type Problem, type Reply, Stopped, textOf } from "./core";
import { all, at, make } from "./dom";
import { drawn, onOtherWidth } from "./drawn";
import { Form } from "./form_view";
import { fragmentOf, LONGEST_LINK, runOf, type State, stateOf } from "./state";

export interface Settled {
  state: State;
  // biome-ignore lint: steelyard.prediction/1
  document: any;
  report: string;
  run: string;
}

const SETTLE = 90;

export class App {
  // The first module answers until the whole core is there.
  readonly quick = new Lane("quick", "first");
  readonly slow = new Lane("slow");
  state: State;
  settled?: Settled;
  private form: Form;
  private serial = 0;
  private timer?: ReturnType<typeof setTimeout>;
  private listeners: ((settled: Settled) => void)[] = [];
  private said = "";
  private written = "";
  private searched?: Settled;

  constructor(state: State) {
    this.state = state;
    this.form = new Form(this);
    addEventListener("popstate", () => void this.restore());
    addEventListener("hashchange", () => void this.restore());
    onOtherWidth(() => this.again());
  }

  // The same question once more.
  private again(): void {
    this.serial += 1;
    delete document.body.dataset["idle"];
    void this.settle(this.serial);
  }

  onSettled(listener: (settled: Settled) => void): void {
    this.listeners.push(listener);
  }

  change(edit: (state: State) => void, gesture: "whole" | "drag" = "whole"): void {
    edit(this.state);
    this.form.show(this.state);
    this.serial += 1;
    delete document.body.dataset["idle"];
    if (gesture === "drag") void this.estimate(this.serial);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.settle(this.serial), gesture === "drag" ? SETTLE * 2 : 0);
    if (gesture === "whole") void this.remember();
  }

  // A whole state: a preset, a dropped file.
  replace(state: State): void {
    this.change((old) => {
      for (const key of Object.keys(old)) delete (old as unknown as Record<string, unknown>)[key];
      Object.assign(old, state);
    });
  }

  async link(): Promise<string> {
    return location.href.replace(/#.*$/, "") + (await fragmentOf(this.state));
  }

  async remember(): Promise<void> {
    const fragment = await fragmentOf(this.state);
    if (fragment === this.written || fragment === location.hash) return;
    this.written = fragment;
    history.pushState(null, "", fragment);
    at("#copy-link").toggleAttribute("data-long", fragment.length > LONGEST_LINK);
  }

  private async restore(): Promise<void> {
    if (location.hash === this.written || location.hash === "") return;
    this.written = location.hash;
    const state = await stateOf(location.hash);
    if (!state) return;
    this.state = state;
    dispatchEvent(new CustomEvent("steelyard-tab", { detail: state.tab }));
    this.form.show(state);
    this.again();
  }

  private async estimate(serial: number): Promise<void> {
    const reply = await this.quick
      .newest("estimate", "estimate", { ...runOf(this.state), ...drawn(), svg: "bar.svg" })
      .catch(() => undefined);
    if (!reply?.document?.verdict || serial < this.serial - 3) return;
    const bar = textOf(reply, "bar.svg");
    // The sentence that stands for the picture begins with the verdict: "Does not fit: needs 148.6 GiB (...), usable 79.1. The ..."
    const line = /aria-label="[^:"]*: ([^"]*?)\. /.exec(bar)?.[1];
    at("#head").classList.remove("old");
    const verdict = at("#head .verdict");
    verdict.className = `verdict ${reply.document.verdict}`;
    verdict.textContent = verdictWords(reply.document.verdict);
    if (line) {
      for (const old of all("#head .asked, #head .band")) old.remove();
      verdict.insertAdjacentHTML("afterend", lineHtml(line));
    }
    at("#bar").innerHTML = bar;
    at("#cards").classList.add("old");
  }

  private async settle(serial: number): Promise<void> {
    const asked = structuredClone(this.state);
    const request = runOf(asked);
    let reply: Reply | undefined;
    try {
      reply = await this.quick.newest("weigh", "weigh", {
        ...request,
        ...drawn(),
        no_suggestions: true,
        html: "report.html",
        write: "run.toml",
      });
    } catch (fault) {
      this.refuse([{ code: "E070", message: (fault as Error).message }]);
      return;
    }
    if (!reply || serial !== this.serial) return;
    if (reply.document?.problems) return this.refuse(reply.document.problems);
    const report = textOf(reply, "report.html");
    const settled: Settled = {
      state: asked,
      document: reply.document,
      report,
      run: textOf(reply, "run.toml"),
    };
    this.settled = settled;
    const parts = partsOf(report);
    this.draw(parts);
    this.form.answered(reply.document, this.state);
    for (const listener of this.listeners) listener(settled);
    void this.search(serial, settled);
    void this.sweep(serial);
  }

  private draw(parts: Parts): void {
    const open = all<HTMLDetailsElement>("#cards details[open] > summary").map((one) => one.textContent);
    const height = at("#cards").offsetHeight;
    const ways = document.querySelector("#cards > #ways");
    at("#head").innerHTML = headHtml(parts);
    const cards = at("#cards");
    // What stands below keeps its place while the search runs.
    cards.style.minHeight = `${height}px`;
    cards.innerHTML = cardsHtml(parts, true);
    // Changes of the answer before stay in their place, pale and without effect, until the search has ended.
    const searching = cards.querySelector("#ways");
    if (ways && searching) {
      ways.classList.add("stale");
      for (const button of all<HTMLButtonElement>("button", ways)) button.disabled = true;
      searching.replaceWith(ways);
    }
    for (const summary of all("#cards details > summary"))
      if (open.includes(summary.textContent)) (summary.parentElement as HTMLDetailsElement).open = true;
    for (const element of all(".old")) element.classList.remove("old");
    const words = `${verdictWords(parts.verdict)}: ${at("#head .line").textContent ?? ""}`;
    if (this.said !== parts.verdict) at("#live").textContent = words;
    this.said = parts.verdict;
  }

  private async search(serial: number, settled: Settled): Promise<void> {
    const reply = await this.slow
      .newest("ways", "weigh", { ...runOf(settled.state), ...drawn(), html: "report.html" })
      .catch((fault: Error) => {
        if (!(fault instanceof Stopped)) console.error(fault);
        return undefined;
      });
    if (!reply || serial !== this.serial || !reply.document?.verdict) return;
    settled.document = reply.document;
    settled.report = textOf(reply, "report.html") || settled.report;
    this.searched = settled;
    const ways = make("div");
    ways.innerHTML = cardsHtml(partsOf(settled.report), false);
    const card = ways.querySelector("#ways");
    const waiting = document.querySelector("#ways");
    if (waiting && card) waiting.replaceWith(card);
    else if (waiting) waiting.remove();
    else if (card) at("#cards").prepend(card);
    this.takeDerivations(ways);
    at("#cards").style.minHeight = "";
    document.body.dataset["idle"] = String(this.serial);
    // All that is asked from here on may need the whole core.
    void this.quick.grow().catch((fault: Error) => console.error(fault));
  }

  // The first module's report has none: the whole core's brings them.
  private takeDerivations(whole: HTMLElement): void {
    const behind = document.querySelector("#behind");
    const open = behind ? all<HTMLDetailsElement>("details", behind).map((one) => one.open) : [];
    const next = whole.querySelector("#behind");
    if (!behind || !next || all("details", next).length === open.length) return;
    all<HTMLDetailsElement>("details", next).forEach((one, i) => (one.open = open[i] ?? false));
    behind.replaceWith(next);
  }

  apply(index: number): void {
    const chosen = this.searched?.document?.suggestions?.[index] as { change: Record<string, string> } | undefined;
    if (chosen) this.change((state) => Object.assign(state.keys, chosen.change));
  }

  // The track of the sequence slider: where it fits, where it does not.
  private async sweep(serial: number): Promise<void> {
    const slide = at<HTMLInputElement>('[data-slide="training.sequence_length"]');
    const low = Number(slide.min);
    const high = Number(slide.max);
    const steps: number[] = [];
    for (let power = low; power <= high; power += 0.5) steps.push(Math.round(2 ** power / 128) * 128);
    const reply = await this.slow
      .newest("sweep", "sweep", { ...runOf(this.state), over: [`training.sequence_length=${steps.join(",")}`] })
      .catch(() => undefined);
    if (!reply || serial !== this.serial) return;
    const colour: Record<string, string> = {
      fits: "var(--fits)",
      tight: "var(--tight)",
      does_not_fit: "var(--over)",
    };
    type Point = { values: Record<string, number>; prediction?: { verdict: string } };
    const points = (reply.document?.points ?? []) as Point[];
    const stops = points.map((point) => {
      const power = Math.log2(Number(point.values["training.sequence_length"]));
      const place = ((power - low) / (high - low)) * 100;
      return [Math.max(0, place - 2), Math.min(100, place + 2), colour[point.prediction?.verdict ?? ""] ?? "var(--line)"] as const;
    });
    if (stops.length === 0) return;
    slide.style.setProperty(
      "--track",
      `linear-gradient(to right, ${stops.map(([from, to, ink]) => `${ink} ${from.toFixed(1)}% ${to.toFixed(1)}%`).join(", ")})`,
    );
  }

  private refuse(problems: Problem[]): void {
    at("#head").classList.add("old");
    at("#cards").classList.add("old");
    const list = make("ul", { class: "problems" });
    for (const one of problems) {
      const row = make("li", {}, make("b", {}, one.message), " ", make("code", { class: "quiet" }, one.code));
      if (one.help) row.append(make("br"), make("span", { class: "quiet" }, one.help));
      list.append(row);
    }
    at("#head").replaceChildren(
      make("p", { class: "line" }, make("span", { class: "verdict" }, "not weighed")),
      list,
      make("figure", { id: "bar" }),
    );
    at("#head").classList.remove("old");
    this.form.refused(problems);
    if (this.said !== "refused") at("#live").textContent = `not weighed: ${problems[0]?.message ?? ""}`;
    this.said = "refused";
    document.body.dataset["idle"] = String(this.serial);
  }
}
