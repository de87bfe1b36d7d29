// The fields and the state: what is typed goes into the run, what the core assumed stands pale in the empty ones.

import type { App } from "./app";
import type { Problem } from "./core";
import { all, at } from "./dom";
import { idOf, isFold, listsHtml, moreHtml, position } from "./form";
import { known } from "./known";
import { deviceWords, setDevice, type State } from "./state";

type Control = HTMLInputElement | HTMLSelectElement;

function snapped(key: string, power: number): string {
  const value = 2 ** power;
  if (key === "training.sequence_length") return String(Math.max(128, Math.round(value / 128) * 128));
  return String(Math.round(value));
}

export class Form {
  private assumed: Record<string, string> = {};
  private typing?: ReturnType<typeof setTimeout>;

  constructor(private app: App) {
    const form = at<HTMLFormElement>("#form");
    form.insertAdjacentHTML("beforeend", listsHtml(known));
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", (event) => this.input(event.target as Control));
    form.addEventListener("change", (event) => this.changed(event.target as Control));
    form.addEventListener("click", (event) => this.step(event));
    form.addEventListener("keydown", (event) => this.doubling(event));
    at<HTMLDetailsElement>("#more").addEventListener("toggle", () => this.unfold());
    at<HTMLInputElement>("#more-find").addEventListener("input", () => this.find());
  }

  private valueOf(key: string): string {
    return this.app.state.keys[key] ?? "";
  }

  private input(control: Control): void {
    const slide = control.dataset["slide"];
    if (slide) {
      const value = snapped(slide, Number(control.value));
      this.app.change((state) => (state.keys[slide] = value), "drag");
      return;
    }
    if (!control.dataset["key"] && control.id !== "k-model" && control.id !== "k-on") return;
    if (control instanceof HTMLSelectElement || control.type === "radio") return;
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.take(control), 350);
  }

  private changed(control: Control): void {
    clearTimeout(this.typing);
    if (control.dataset["slide"]) {
      void this.app.remember();
      return;
    }
    this.take(control);
  }

  private take(control: Control): void {
    const value = control.value.trim();
    if (control.id === "k-model") {
      if (value === "" || value === this.modelWords(this.app.state)) return;
      this.app.change((state) => {
        state.model = value;
        delete state.called;
      });
    } else if (control.id === "k-on") {
      if (value === deviceWords(this.app.state.keys)) return;
      this.app.change((state) => setDevice(state.keys, value));
    } else {
      const key = control.dataset["key"];
      if (!key || value === this.valueOf(key)) return;
      this.app.change((state) => {
        if (value === "") delete state.keys[key];
        else state.keys[key] = value;
      });
    }
  }

  // − and +: half and twice, from what the core assumed where nothing is said.
  private step(event: Event): void {
    const button = (event.target as Element).closest<HTMLButtonElement>("[data-step]");
    const key = button?.dataset["of"];
    if (!button || !key) return;
    const now = Number(this.valueOf(key) || this.assumed[key] || "1") || 1;
    const next = button.dataset["step"] === "1" ? now * 2 : Math.max(1, Math.floor(now / 2));
    if (next !== now) this.app.change((state) => (state.keys[key] = String(next)));
  }

  // Shift and an arrow: twice or half as much.
  private doubling(event: KeyboardEvent): void {
    const slide = (event.target as HTMLElement).dataset["slide"];
    if (!slide || !event.shiftKey) return;
    const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const control = event.target as HTMLInputElement;
    const power = Math.min(Number(control.max), Math.max(Number(control.min), Number(control.value) + by));
    this.app.change((state) => (state.keys[slide] = snapped(slide, power)));
  }

  private unfold(): void {
    const place = at("#more-fields");
    if (place.childElementCount === 0) {
      place.innerHTML = moreHtml(known, this.app.state.keys);
      this.placeholders();
    }
  }

  private find(): void {
    const words = at<HTMLInputElement>("#more-find").value.toLowerCase().trim().replace(/[ -]/g, "_");
    for (const field of all("#more-fields .field")) field.hidden = !(field.dataset["field"] ?? "").includes(words);
    for (const heading of all("#more-fields h3")) heading.hidden = words !== "";
  }

  private modelWords(state: State): string {
    return typeof state.model === "string" ? state.model : (state.called ?? "a model of your own");
  }

  show(state: State): void {
    // A key of the folded half that a link or a file sets is worth seeing.
    const more = at<HTMLDetailsElement>("#more");
    if (Object.keys(state.keys).some(isFold) && !more.open) more.open = true;
    const put = (control: Control, value: string): void => {
      if (control !== document.activeElement && control.value !== value) {
        if (control instanceof HTMLSelectElement && ![...control.options].some((one) => one.value === value))
          control.add(new Option(value, value));
        control.value = value;
      }
    };
    put(at<HTMLInputElement>("#k-model"), this.modelWords(state));
    put(at<HTMLInputElement>("#k-on"), deviceWords(state.keys));
    for (const control of all<Control>("#form [data-key]")) {
      const value = state.keys[control.dataset["key"] as string] ?? "";
      if (control.type === "radio") (control as HTMLInputElement).checked = control.value === value;
      else put(control, value);
    }
    for (const field of all("#form .field[data-field]"))
      field.classList.toggle("set", isFold(field.dataset["field"] as string) && (state.keys[field.dataset["field"] as string] ?? "") !== "");
    this.slides(state);
  }

  private slides(state: State): void {
    for (const slide of all<HTMLInputElement>("#form [data-slide]")) {
      if (slide === document.activeElement && slide.matches(":active")) continue;
      const key = slide.dataset["slide"] as string;
      slide.value = String(position(state.keys[key] || this.assumed[key] || "", Number(slide.min)));
      slide.setAttribute("aria-valuetext", state.keys[key] || this.assumed[key] || "as the core decides");
    }
  }

  // biome-ignore lint: steelyard.prediction/1
  answered(document: any, state: State): void {
    this.assumed = {};
    for (const one of document.assumptions ?? []) this.assumed[one.key] ??= one.value;
    this.placeholders();
    this.slides(state);
    for (const field of all("#form .field.wrong")) field.classList.remove("wrong");
    for (const says of all("#form .says")) says.hidden = true;
    const dense = document.parameters?.active === document.parameters?.total;
    this.grey("parallel.expert", dense && !state.keys["parallel.expert"], "needs a mixture of experts");
  }

  private grey(key: string, off: boolean, why: string): void {
    const field = at(`[data-field="${key}"]`);
    for (const control of all<HTMLInputElement>("input, button, select", field)) control.disabled = off;
    const says = at(".says", field);
    says.hidden = !off;
    says.classList.toggle("why", off);
    if (off) says.textContent = why;
  }

  private placeholders(): void {
    for (const control of all<Control>("#form [data-key]")) {
      const key = control.dataset["key"] as string;
      const value = this.assumed[key];
      if (control instanceof HTMLSelectElement) {
        const first = control.options[0];
        if (first && value) first.textContent = value;
      } else if (control.type !== "radio" && value) control.placeholder = value;
    }
  }

  refused(problems: Problem[]): void {
    for (const field of all("#form .field.wrong")) field.classList.remove("wrong");
    for (const says of all("#form .says:not(.why)")) says.hidden = true;
    for (const problem of problems) {
      const text = `${problem.message} ${problem.help ?? ""}`;
      const field = all("#form .field[data-field]").find((one) => {
        const key = one.dataset["field"] as string;
        return problem.file?.includes(key) || text.includes(key) || text.includes(idOf(key));
      });
      if (!field) continue;
      field.classList.add("wrong");
      const says = at(".says", field);
      says.hidden = false;
      says.classList.remove("why");
      says.textContent = problem.message;
    }
  }
}
