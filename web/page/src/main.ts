// The page: a worked answer stands in the HTML; from here on it moves.

import "virtual:charts.css";
import { App } from "./app";
import { coreIs } from "./core";
import { at, say } from "./dom";
import { files } from "./core_files";
import { Drop } from "./drop";
import { Keyboard } from "./keyboard";
import { PileCard } from "./pile";
import { Pin } from "./pin";
import { presets } from "./presets";
import { stateOf } from "./state";
import { Tabs } from "./tabs";
import { TakeAway } from "./take_away";

async function begin(): Promise<void> {
  coreIs(files);
  const worked = await stateOf(presets[0]?.fragment ?? "");
  const asked = await stateOf(location.hash);
  const app = new App(asked ?? worked ?? { tab: "weigh", model: "llama-3.1-8b", keys: {} });
  const piles = new PileCard(app);
  const pin = new Pin(app);
  const tabs = new Tabs(app);
  new TakeAway(app);
  new Drop(app, tabs);
  new Keyboard(piles, pin, tabs);

  const examples = at<HTMLSelectElement>("#presets");
  examples.addEventListener("change", async () => {
    const state = await stateOf(presets[Number(examples.value)]?.fragment ?? "");
    examples.value = "";
    if (state) app.replace({ ...state, tab: app.state.tab === "plan" ? "plan" : "weigh" });
    tabs.show(app.state.tab);
  });
  at("#cards").addEventListener("click", (event) => {
    const button = (event.target as Element).closest<HTMLElement>("[data-apply]");
    if (button) app.apply(Number(button.dataset["apply"]));
  });
  const theme = at("#theme");
  const choose = (value: string | null): void => {
    if (value) document.documentElement.dataset["theme"] = value;
  };
  try {
    choose(localStorage.getItem("steelyard-theme"));
  } catch {
    // From disk some browsers keep nothing.
  }
  theme.addEventListener("click", () => {
    const dark = document.documentElement.dataset["theme"] ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    const next = dark === "dark" ? "light" : "dark";
    choose(next);
    try {
      localStorage.setItem("steelyard-theme", next);
    } catch {
      // As above.
    }
  });

  // The worked answer is drawn already; asking it again warms the core, and brings what clicks need.
  app.change(() => undefined, "drag");
  tabs.show(app.state.tab);
  if ("serviceWorker" in navigator && location.protocol.startsWith("http"))
    navigator.serviceWorker.register("service-worker.js").catch(() => undefined);
}

begin().catch((fault: Error) => say(`the page did not start: ${fault.message}`));
