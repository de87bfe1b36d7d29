// A pile that was chosen, by a click on any mark of it or by its digit: it stays bright, and a card says where its bytes come
// from, with the formula, the rule and the source of every line.

import type { App, Settled } from "./app";
import { at, make, table } from "./dom";
import { count, gib } from "./format";
import { runOf } from "./state";

export const PILES = [
  "parameters",
  "gradients",
  "master_weights",
  "optimizer_moments",
  "activations",
  "temporary",
  "communication",
  "slack",
  "runtime",
];
// The allocator's and the driver's own: no formula of the model explains them.
const UNEXPLAINED: Record<string, string> = {
  slack: "Slack is memory that the allocator reserved and no tensor uses: it is simulated, request by request, not computed from a formula.",
  runtime: "Runtime is what the CUDA context and the communicators take beside the allocator, as measured for this device.",
};

interface Line {
  owner: string;
  name: string;
  formula: string;
  reason: string;
  rule: string;
  source: string;
  count: number;
  total_bytes: number;
}

const ROWS = 12;

export class PileCard {
  private shown = "";

  constructor(private app: App) {
    app.onSettled((settled) => void this.show(settled));
    document.addEventListener("click", (event) => {
      const mark = (event.target as Element).closest("[data-pile]");
      const pile = mark?.getAttribute("data-pile");
      if (pile && PILES.includes(pile)) this.pick(pile);
    });
  }

  pick(pile: string | undefined): void {
    const state = this.app.state;
    if (pile === undefined || state.pile === pile) delete state.pile;
    else state.pile = pile;
    void this.app.remember();
    if (this.app.settled) void this.show(this.app.settled);
    else this.mark();
  }

  private mark(): void {
    const pile = this.app.state.pile;
    document.body.classList.toggle("picking", pile !== undefined);
    if (pile) document.body.dataset["pick"] = pile;
    else delete document.body.dataset["pick"];
  }

  private async show(settled: Settled): Promise<void> {
    this.mark();
    const pile = this.app.state.pile;
    const card = at("#why");
    card.hidden = !pile;
    if (!pile) return;
    const words = pile.replace(/_/g, " ");
    const close = make("button", { type: "button", class: "plain" }, "close");
    close.addEventListener("click", () => this.pick(undefined));
    at("#why-title").replaceChildren(make("span", {}, `Why ${words}`), close);
    const body = at("#why-body");
    if (UNEXPLAINED[pile]) return body.replaceChildren(make("p", {}, UNEXPLAINED[pile]));
    const wanted = `${pile} ${settled.run}`;
    const reply = await this.app.quick.newest("explain", "explain", { ...runOf(settled.state), selection: pile });
    if (!reply || this.app.state.pile !== pile) return;
    if (reply.document?.problems) return body.replaceChildren(make("p", {}, reply.document.problems[0].message));
    this.fill(body, reply.document);
    if (this.shown !== wanted.slice(0, pile.length)) card.scrollIntoView({ block: "nearest" });
    this.shown = pile;
  }

  // biome-ignore lint: steelyard.derivation/1
  private fill(body: HTMLElement, document: any): void {
    const lines = document.lines as Line[];
    const legend = (document.legend as { letter: string; meaning: string; value: number }[])
      .map((one) => `${one.letter} ${one.meaning} ${count(one.value)}`)
      .join(" · ");
    const row = (line: Line): (Node | string)[] => {
      const reason = make("details", {}, make("summary", {}, line.name));
      reason.append(
        make("p", { class: "reason" }, line.reason),
        make("p", { class: "reason" }, `rule ${line.rule} · ${line.source}`),
      );
      return [
        line.owner,
        reason,
        make("span", { class: "formula" }, line.formula),
        line.count === 1 ? "" : count(line.count),
        gib(line.total_bytes),
        count(line.total_bytes),
      ];
    };
    const headings = ["of", "tensor", "formula", "times#", "GiB#", "bytes#"];
    body.replaceChildren(
      make("p", { class: "symbols" }, `${gib(document.total_bytes)} GiB, ${count(document.total_bytes)} bytes · ${legend}`),
      make("div", { class: "scroll" }, table(headings, lines.slice(0, ROWS).map(row))),
    );
    if (lines.length > ROWS) {
      const more = make("button", { type: "button", class: "plain" }, `${lines.length - ROWS} more rows`);
      more.addEventListener("click", () => {
        at("table", body).replaceWith(table(headings, lines.map(row)));
        more.remove();
      });
      body.append(more);
    }
  }
}
