// Compare: an answer is pinned, and every later one stands beside it, pile by pile.

import type { App, Settled } from "./app";
import { partsOf } from "./answer";
import { textOf } from "./core";
import { at, make, say } from "./dom";
import { drawn } from "./drawn";

export class Pin {
  private held?: { run: string; words: string };

  constructor(private app: App) {
    app.onSettled((settled) => void this.show(settled));
  }

  toggle(): void {
    if (this.held) {
      delete this.held;
      at("#pinned").hidden = true;
      return;
    }
    const settled = this.app.settled;
    if (!settled) return;
    this.held = { run: settled.run, words: at("#head .line").textContent ?? "" };
    say("pinned: change anything to see the difference; c lets go");
    void this.show(settled);
  }

  private async show(settled: Settled): Promise<void> {
    const held = this.held;
    if (!held) return;
    const box = at("#pinned");
    const release = make("button", { type: "button", class: "plain" }, "let go");
    release.addEventListener("click", () => this.toggle());
    const title = make("h2", {}, "Against the pinned answer");
    if (settled.run === held.run) {
      box.replaceChildren(title, make("p", { class: "quiet" }, `Pinned: ${held.words}. Nothing has changed since.`), release);
      box.hidden = false;
      return;
    }
    const reply = await this.app.quick.newest("compare", "compare", {
      before: "pinned.toml",
      after: "now.toml",
      files: { "pinned.toml": held.run, "now.toml": settled.run },
      ...drawn(),
      html: "compare.html",
    });
    if (!reply || this.held !== held) return;
    const report = textOf(reply, "compare.html");
    const parts = report ? partsOf(report) : undefined;
    const figure = make("figure");
    figure.innerHTML = parts?.sections.find((one) => one.figure)?.figure ?? "";
    const text = make("div", { class: "scroll" });
    text.innerHTML = parts?.sections.find((one) => one.rest.includes("<pre>"))?.rest ?? "";
    box.replaceChildren(title, figure, text, release);
    if (!parts) box.append(make("p", {}, reply.document?.problems?.[0]?.message ?? "the two cannot be compared"));
    box.hidden = false;
  }
}
