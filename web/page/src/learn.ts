// Learn: where memory goes, one pile after the other, each with the numbers of the run on the Weigh tab.

import type { App } from "./app";
import { at, make } from "./dom";
import { count, gib } from "./format";
import { runOf } from "./state";

interface Chapter {
  pile: string;
  title: string;
  text: string[];
}

const CHAPTERS: Chapter[] = [
  {
    pile: "parameters",
    title: "Parameters",
    text: [
      "Every weight, in the type it is computed in: 2 bytes in bf16, half a byte in nf4. Tensor and pipeline parallelism divide them, ZeRO-3 and FSDP shard them over the data-parallel ranks and gather a layer when it runs.",
      "Gathered copies count here while they live, so the peak of a sharded run is more than its shards.",
    ],
  },
  {
    pile: "gradients",
    title: "Gradients",
    text: [
      "One number for each trained parameter, from its backward until the optimizer's step. ZeRO-2 and above keep only a shard. Accumulation in fp32 doubles them; an optimizer that runs in backward never holds all of them.",
    ],
  },
  {
    pile: "master_weights",
    title: "Master weights",
    text: [
      "A copy of the parameters in 32 bits, where the optimizer works on a finer type than the arithmetic does. Autocast keeps none: its parameters are the fine copy.",
    ],
  },
  {
    pile: "optimizer_moments",
    title: "Optimizer moments",
    text: [
      "Adam keeps two numbers for each trained parameter: 8 bytes in fp32, 2 in 8-bit Adam. They exist from the first optimizer step on, so a run may pass its first forward and backward and die in the second.",
    ],
  },
  {
    pile: "activations",
    title: "Activations",
    text: [
      "What forward saves for backward. They grow with sequence length and micro-batch, and are what recomputation trades for time: a layer that is recomputed keeps its input only.",
      "Flash attention keeps no matrix of sequence by sequence. SwiGLU's three products are the largest part of most layers.",
    ],
  },
  {
    pile: "temporary",
    title: "Temporary",
    text: [
      "What lives within one operation or between two: logits in fp32 and their gradient, the softmax's workspace, the optimizer's scratch. Logits of 128,256 words times the sequence are the classic last straw; a chunked or fused loss never builds them whole.",
    ],
  },
  {
    pile: "communication",
    title: "Communication",
    text: ["Buckets and buffers of collectives: what is gathered, reduced and sent."],
  },
  {
    pile: "slack",
    title: "Slack",
    text: [
      "What the allocator reserved and no tensor uses: rounding, cached blocks, fragments. Steelyard plays the requests of the step through a model of the CUDA caching allocator instead of adding a percentage.",
    ],
  },
  {
    pile: "runtime",
    title: "Runtime",
    text: ["The CUDA context, loaded kernels and the communicators' own memory: what nvidia-smi shows and PyTorch does not."],
  },
];

export class Learn {
  private drawn = "";

  constructor(private app: App) {
    app.onSettled(() => {
      if (!at("#learn").hidden) this.open();
    });
  }

  open(): void {
    const settled = this.app.settled;
    const mark = settled?.run ?? "-";
    if (mark === this.drawn) return;
    this.drawn = mark;
    const intro = make(
      "section",
      { class: "card prose" },
      make("h2", {}, "Where the memory of a training run goes"),
      make(
        "p",
        {},
        "Device memory divides into nine piles. They peak at different moments, so the need of a run is the fullest moment of its step, not the sum of the largest piles. The numbers here are those of the run on the Weigh tab: change it there and read on.",
      ),
    );
    const figure = make("figure");
    // Its patterns go by their ids: those of the original stand in a panel that is hidden, and would draw nothing.
    figure.innerHTML = (document.querySelector("#phases figure")?.innerHTML ?? "").replace(/phases-/g, "learn-");
    intro.append(figure);
    at("#learn").replaceChildren(intro, ...CHAPTERS.map((one) => this.chapter(one)));
  }

  private chapter(chapter: Chapter): HTMLElement {
    const phases = (this.app.settled?.document?.ranks ?? []).find(
      (rank: { rank: number }) => rank.rank === this.app.settled?.document.peak.rank,
    )?.phases as { phase: string; piles: Record<string, number> }[] | undefined;
    const most = phases?.reduce((a, b) => ((b.piles[chapter.pile] ?? 0) > (a.piles[chapter.pile] ?? 0) ? b : a));
    const size = most?.piles[chapter.pile] ?? 0;
    const section = make(
      "section",
      { class: "card prose" },
      make("h2", {}, chapter.title),
      ...chapter.text.map((text) => make("p", {}, text)),
    );
    if (most)
      section.append(
        make("p", {}, make("b", {}, size > 0 ? `In this run at most ${gib(size)} GiB, in ${most.phase}.` : "In this run: none.")),
      );
    if (size > 0 && chapter.pile !== "slack" && chapter.pile !== "runtime") {
      const open = make("details", { class: "table" }, make("summary", {}, "Its formulas"));
      open.addEventListener("toggle", () => open.open && open.childElementCount === 1 && void this.formulas(open, chapter.pile));
      section.append(open);
    }
    return section;
  }

  private async formulas(into: HTMLElement, pile: string): Promise<void> {
    const reply = await this.app.quick.ask("explain", { ...runOf(this.app.state), selection: pile });
    const lines = (reply.document?.lines ?? []) as { owner: string; name: string; formula: string; count: number; total_bytes: number }[];
    const list = make("ul");
    for (const line of lines.slice(0, 8))
      list.append(
        make(
          "li",
          {},
          `${line.owner} ${line.name}: `,
          make("span", { class: "formula" }, line.formula),
          line.count > 1 ? ` × ${count(line.count)}` : "",
          ` = ${gib(line.total_bytes)} GiB`,
        ),
      );
    into.append(list);
  }
}
