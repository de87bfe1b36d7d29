// Weigh, Plan, Diagnose, Learn: one at a time, in the address.

import type { App } from "./app";
import { all, at } from "./dom";
import { Diagnose } from "./diagnose";
import { Learn } from "./learn";
import { Plan } from "./plan";
import type { Tab } from "./state";

const PANELS: Record<Tab, string> = { weigh: "#answer", plan: "#plan", diagnose: "#diagnose", learn: "#learn" };

export class Tabs {
  readonly diagnose: Diagnose;
  now: Tab = "weigh";
  private plan: Plan;
  private learn: Learn;

  constructor(private app: App) {
    this.plan = new Plan(app, () => this.show("weigh"));
    this.diagnose = new Diagnose(app, () => this.show("weigh"));
    this.learn = new Learn(app);
    const buttons = all<HTMLButtonElement>('[role="tab"]');
    for (const button of buttons) button.addEventListener("click", () => this.show(button.id.slice(4) as Tab));
    at('[role="tablist"]').addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[(event as KeyboardEvent).key];
      if (!by) return;
      const from = buttons.findIndex((one) => one === document.activeElement);
      const next = buttons[(from + by + buttons.length) % buttons.length];
      next?.focus();
      next?.click();
    });
    addEventListener("steelyard-tab", (event) => this.show((event as CustomEvent<Tab>).detail));
  }

  show(tab: Tab): void {
    this.now = tab;
    document.body.dataset["tab"] = tab;
    for (const [name, panel] of Object.entries(PANELS)) at(panel).hidden = name !== tab;
    for (const button of all('[role="tab"]')) {
      const chosen = button.id === `tab-${tab}`;
      button.setAttribute("aria-selected", String(chosen));
      button.tabIndex = chosen ? 0 : -1;
    }
    if (this.app.state.tab !== tab) {
      this.app.state.tab = tab;
      void this.app.remember();
    }
    if (tab === "plan") this.plan.open();
    else this.plan.close();
    if (tab === "learn") this.learn.open();
  }
}
