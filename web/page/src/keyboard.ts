// Single keys, which can be switched off (WCAG 2.1.4), and the list of them.

import { at, make } from "./dom";
import { PILES, type PileCard } from "./pile";
import type { Pin } from "./pin";
import type { Tabs } from "./tabs";

const LIST: [string, string][] = [
  ["/", "the model"],
  ["s", "the sequence length; arrows move it, Shift doubles"],
  ["1 – 9", "a pile, from parameters to runtime"],
  ["e", "explain the largest pile"],
  ["c", "pin this answer and compare"],
  ["?", "this list"],
  ["Esc", "back"],
];

export class Keyboard {
  private on = true;

  constructor(
    private piles: PileCard,
    private pin: Pin,
    private tabs: Tabs,
  ) {
    try {
      this.on = localStorage.getItem("steelyard-keys") !== "off";
    } catch {
      // From disk some browsers keep nothing.
    }
    this.dialog();
    document.addEventListener("keydown", (event) => this.key(event));
    at("#help").addEventListener("click", () => at<HTMLDialogElement>("#keys").showModal());
  }

  private dialog(): void {
    const dialog = at<HTMLDialogElement>("#keys");
    const box = make("input", { type: "checkbox", id: "keys-on" });
    box.checked = this.on;
    box.addEventListener("change", () => {
      this.on = box.checked;
      try {
        localStorage.setItem("steelyard-keys", this.on ? "on" : "off");
      } catch {
        // As above.
      }
    });
    const rows = LIST.map(([key, does]) => make("tr", {}, make("td", {}, make("kbd", {}, key)), make("td", {}, does)));
    const close = make("button", { type: "button", class: "plain" }, "close");
    close.addEventListener("click", () => dialog.close());
    dialog.replaceChildren(
      make("h2", { id: "keys-title" }, "Keys"),
      make("table", {}, make("tbody", {}, ...rows)),
      make("p", {}, make("label", {}, box, " single keys are on")),
      make("p", { class: "quiet" }, "Drop a config.json, a run file, a launch configuration, an out-of-memory text or a snapshot anywhere."),
      close,
    );
  }

  private key(event: KeyboardEvent): void {
    if (!this.on || event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target as HTMLElement;
    const typing = target.matches("input:not([type=range], [type=radio], [type=checkbox]), textarea, select");
    if (event.key === "Escape") {
      if (typing) target.blur();
      else this.piles.pick(undefined);
      return;
    }
    if (typing || at<HTMLDialogElement>("#keys").open) return;
    const digit = /^[1-9]$/.test(event.key) ? PILES[Number(event.key) - 1] : undefined;
    if (digit) this.piles.pick(digit);
    else if (event.key === "c") this.pin.toggle();
    else if (event.key === "e") this.largest();
    else if (event.key === "?") at<HTMLDialogElement>("#keys").showModal();
    else if (event.key === "/" || event.key === "s") {
      if (this.tabs.now === "diagnose" || this.tabs.now === "learn") this.tabs.show("weigh");
      at(event.key === "/" ? "#k-model" : '[data-slide="training.sequence_length"]').focus();
    } else return;
    event.preventDefault();
  }

  private largest(): void {
    let pile: string | undefined;
    let most = 0;
    for (const mark of document.querySelectorAll("#bar rect[data-bytes]")) {
      const bytes = Number(mark.getAttribute("data-bytes"));
      if (bytes > most) [most, pile] = [bytes, mark.getAttribute("data-pile") ?? undefined];
    }
    if (pile) this.piles.pick(pile);
  }
}
