// Diagnose: what filled the memory of a run that died. Logs and out-of-memory texts are pasted or dropped; snapshots are handed
// to the core as bytes. Nothing leaves the tab.

import { partsOf } from "./answer";
import type { App } from "./app";
import { type HeldFile, Stopped, textOf } from "./core";
import { all, at, make } from "./dom";
import { drawn } from "./drawn";

const EXAMPLE = `[rank3]: Traceback (most recent call last):
[rank3]:   File "/opt/env/lib/python3.11/site-packages/transformers/loss/loss_utils.py", line 36, in ForCausalLMLoss
[rank3]:     logits = logits.float()
[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 7.83 GiB. GPU 3 has a total capacity of 79.11 GiB of which 4.52 GiB is free. Including non-PyTorch memory, this process has 74.58 GiB memory in use. Of the allocated memory 71.20 GiB is allocated by PyTorch, and 1.86 GiB is reserved by PyTorch but unallocated.
`;

export class Diagnose {
  private count = 0;

  constructor(
    private app: App,
    private leave: () => void,
  ) {
    const text = make("textarea", { id: "oom", spellcheck: "false", "aria-label": "what the run printed", placeholder: "paste what the run printed when it died" });
    const pick = make("input", { type: "file", id: "evidence", multiple: true, class: "offscreen" });
    const open = make("label", { class: "plain first", for: "evidence" }, "choose files");
    const example = make("button", { type: "button", class: "plain" }, "show an example");
    const against = make("input", { type: "checkbox", id: "against" });
    example.addEventListener("click", () => {
      text.value = EXAMPLE;
      void this.text(EXAMPLE);
    });
    let timer: ReturnType<typeof setTimeout> | undefined;
    text.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => void this.text(text.value), 300);
    });
    pick.addEventListener("change", () => void this.files([...(pick.files ?? [])]));
    against.addEventListener("change", () => void this.again());
    at("#diagnose").replaceChildren(
      make(
        "section",
        { class: "card" },
        make("h2", {}, "What did it print when it died?"),
        make("p", { class: "quiet" }, "An out-of-memory text, a whole log, a memory snapshot (.pickle), or several of them. Read in this tab, never uploaded."),
        text,
        make("div", { class: "buttons" }, open, pick, example, make("label", { class: "check" }, against, " against the run on the Weigh tab")),
      ),
      make("div", { id: "diagnosis", "aria-live": "polite" }),
    );
  }

  private last?: () => Promise<void>;
  private again(): Promise<void> {
    return this.last?.() ?? Promise.resolve();
  }

  async text(text: string): Promise<void> {
    if (text.trim() === "") return at("#diagnosis").replaceChildren();
    this.last = () => this.text(text);
    await this.ask(["oom.txt"], { "oom.txt": text }, []);
  }

  async files(files: File[]): Promise<void> {
    if (files.length === 0) return;
    this.last = () => this.files(files);
    const total = files.reduce((sum, file) => sum + file.size, 0);
    this.say(`reading ${files.map((file) => file.name).join(", ")} (${(total / 2 ** 20).toFixed(1)} MiB) …`);
    const held: HeldFile[] = files.map((file) => ({ name: file.name, file }));
    await this.ask(files.map((file) => file.name), {}, held);
  }

  private say(words: string): void {
    at("#diagnosis").replaceChildren(make("section", { class: "card" }, make("p", { class: "quiet" }, words)));
  }

  private async ask(evidence: string[], texts: Record<string, string>, held: HeldFile[]): Promise<void> {
    const serial = ++this.count;
    const files = { ...texts };
    const request: Record<string, unknown> = { evidence, files, ...drawn(), html: "diagnosis.html" };
    if (at<HTMLInputElement>("#against").checked && this.app.settled) {
      files["run.toml"] = this.app.settled.run;
      request["against"] = "run.toml";
    }
    try {
      const reply = await this.app.slow.ask("diagnose", request, held);
      if (serial !== this.count) return;
      const report = textOf(reply, "diagnosis.html");
      if (reply.document?.schema === "steelyard.error/1")
        this.say(reply.document.problems.map((one: { message: string; help?: string }) => `${one.message}. ${one.help ?? ""}`).join(" "));
      else this.show(reply.document, report);
    } catch (fault) {
      if (serial === this.count && !(fault instanceof Stopped)) this.say((fault as Error).message);
    }
  }

  // biome-ignore lint: steelyard.diagnosis/1
  private show(document: any, report: string): void {
    const parts = partsOf(report);
    const words = parts.line.split(/ {3}/);
    const head = make("section", { class: "card" });
    const line = make("p", { class: "line" });
    line.innerHTML = `<span class="asked"><b>${words[0] ?? ""}</b></span><span class="band">${words[1] ?? ""}</span>`;
    const figure = make("figure");
    figure.innerHTML = parts.sections.find((one) => one.figure)?.figure ?? "";
    head.append(line, figure);
    const pre = make("div", { class: "scroll" });
    pre.innerHTML = parts.sections.find((one) => one.rest.includes("<pre>"))?.rest ?? "";
    const fixes = (document.fixes ?? []) as { change: Record<string, unknown>; text: string }[];
    const because = make("ul");
    for (const one of (document.proof ?? []) as { cause: string; text: string }[])
      because.append(make("li", {}, make("b", {}, one.cause.replace(/_/g, " ")), `: ${one.text}`));
    const fix = make("div", { class: "buttons" });
    for (const one of fixes) {
      const use = make("button", { type: "button", class: "plain" }, one.text);
      use.title = "lay it over the run on the Weigh tab";
      use.addEventListener("click", () => {
        this.app.change((state) => {
          for (const [key, value] of Object.entries(one.change)) state.keys[key] = String(value);
        });
        this.leave();
      });
      fix.append(use);
    }
    at("#diagnosis").replaceChildren(
      head,
      ...(because.childElementCount ? [make("section", { class: "card" }, make("h2", {}, "Because"), because)] : []),
      ...(fixes.length ? [make("section", { class: "card" }, make("h2", {}, "What to change"), fix)] : []),
      make("section", { class: "card" }, make("h2", {}, "In the terminal's words"), pre),
    );
    for (const svg of all("#diagnosis svg")) svg.setAttribute("preserveAspectRatio", "xMinYMin meet");
  }
}
