// What leaves with the user: a link, the shortest command that gives this answer, files for other programs.

import type { App } from "./app";
import type { Reply } from "./core";
import { all, at, copy, download, make, say } from "./dom";
import { known } from "./known";
import { deviceWords, LONGEST_LINK, runOf, type State } from "./state";

// As a shell needs it.
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replace(/'/g, "'\\''")}'`;
}

export function commandOf(state: State): string {
  if (typeof state.model !== "string" || state.rest)
    return `steelyard weigh run.toml   # "run file" below saves it`;
  const words = ["steelyard", "weigh", quoted(state.model)];
  const on = deviceWords(state.keys);
  if (on) words.push("--on", quoted(on));
  for (const [key, value] of Object.entries(state.keys)) {
    const flag = known.keys.find((one) => one.key === key)?.flag;
    if (flag && value !== "" && key !== "cluster.device" && key !== "cluster.devices") words.push(flag, quoted(value));
  }
  return words.join(" ");
}

function csvOf(document: { ranks: { rank: number; phases: { phase: string; piles: Record<string, number> }[] }[] }): string {
  const rows: string[] = [];
  for (const rank of document.ranks)
    for (const phase of rank.phases) {
      if (rows.length === 0) rows.push(["rank", "phase", ...Object.keys(phase.piles)].join(","));
      rows.push([rank.rank, phase.phase, ...Object.values(phase.piles)].join(","));
    }
  return `${rows.join("\n")}\n`;
}

async function pngOf(svg: SVGSVGElement): Promise<Blob> {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  // The classes have no style sheet there: the light colours of the attributes stand.
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  await image.decode();
  const canvas = make("canvas");
  const box = svg.viewBox.baseVal;
  canvas.width = box.width * 2;
  canvas.height = box.height * 2;
  const context = canvas.getContext("2d");
  if (!context) throw new Error("the browser draws no canvas");
  context.fillStyle = "#fff";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("no picture"))), "image/png"),
  );
}

// A file that is no text comes as base64.
function contentOf(file: Reply["files"][number]): string | Blob {
  if (file.base64 === undefined) return file.text ?? "";
  return new Blob([Uint8Array.from(atob(file.base64), (character) => character.charCodeAt(0))]);
}

export class TakeAway {
  constructor(private app: App) {
    at("#away-body").replaceChildren(
      make("div", { class: "buttons" }, ...this.buttons()),
      make("pre", { id: "command", tabindex: "0", "aria-label": "the command of this answer" }),
    );
    at("#copy-link").addEventListener("click", () => void this.copyLink());
    app.onSettled(() => (at("#command").textContent = commandOf(app.state)));
    at("#command").textContent = commandOf(app.state);
  }

  private buttons(): HTMLButtonElement[] {
    const button = (words: string, does: () => unknown, title = ""): HTMLButtonElement => {
      const element = make("button", { type: "button", class: "plain", title: title || undefined }, words);
      element.addEventListener("click", () => void Promise.resolve(does()).catch((fault: Error) => say(fault.message)));
      return element;
    };
    return [
      button("copy command", () => copy(commandOf(this.app.state), "command copied")),
      button("copy link", () => this.copyLink()),
      button("run file", () => this.run(), "TOML that the program reads"),
      button("launch files", () => this.launch(), "a script of the engine itself"),
      button("report", () => download("report.html", this.answer().report, "text/html"), "one HTML file"),
      button("JSON", () => download("prediction.json", `${JSON.stringify(this.answer().document, null, 2)}\n`, "application/json")),
      button("CSV", () => download("phases.csv", csvOf(this.answer().document), "text/csv"), "phases and piles, bytes"),
      button("SVG", () => this.svg()),
      button("PNG", async () => download("memory.png", await pngOf(at<SVGSVGElement>("#bar svg")))),
      button("Perfetto trace", () => this.file("trace", "step.json"), "for ui.perfetto.dev"),
      button("memory snapshot", () => this.file("snapshot", "snapshot.pickle"), "for pytorch.org/memory_viz"),
    ];
  }

  private answer(): NonNullable<App["settled"]> {
    if (!this.app.settled) throw new Error("no answer yet");
    return this.app.settled;
  }

  private async copyLink(): Promise<void> {
    const link = await this.app.link();
    await copy(link, link.length > LONGEST_LINK ? "link copied; it is long, some programs cut it" : "link copied");
  }

  private run(): void {
    download("run.toml", this.answer().run, "application/toml");
  }

  private async launch(): Promise<void> {
    const engine = this.app.state.keys["engine"] ?? this.answer().document.engine;
    const reply = await this.app.slow.ask("export", {
      ...runOf(this.app.state),
      ...(engine ? { to: engine } : {}),
      format: "text",
    });
    if (reply.document?.problems) throw new Error(reply.document.problems[0].message);
    for (const file of reply.files) download(file.name, contentOf(file));
    if (reply.text) download(`launch-${engine ?? "run"}.sh`, reply.text);
  }

  private async file(flag: string, name: string): Promise<void> {
    const reply = await this.app.slow.ask("weigh", { ...runOf(this.app.state), no_suggestions: true, [flag]: name });
    if (reply.document?.problems) throw new Error(reply.document.problems[0].message);
    const file = reply.files.find((one) => one.name === name);
    if (!file) throw new Error("the core wrote no file");
    download(file.name, contentOf(file), file.base64 === undefined ? "application/json" : "application/octet-stream");
  }

  private svg(): void {
    const pictures = all<SVGSVGElement>("#bar svg, #cards figure svg");
    const first = pictures[0];
    if (first) download("memory.svg", `${new XMLSerializer().serializeToString(first)}\n`, "image/svg+xml");
  }
}
