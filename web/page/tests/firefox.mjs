// node tests/firefox.mjs FOLDER: one journey in Debian's Firefox ESR, over WebDriver BiDi. The worked answer, a slider, a change that
// is applied, a dropped text, a plan, a link opened again; no request to another host, no fault of the script.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import puppeteer from "puppeteer-core";

const built = path.resolve(process.argv[2] ?? path.join(import.meta.dirname, "../../../build/page"));
const port = 4175;
const server = spawn(process.execPath, [path.join(import.meta.dirname, "serve.mjs"), built, String(port)]);
await once(server.stdout, "data");
const browser = await puppeteer.launch({
  browser: "firefox",
  executablePath: process.env.STEELYARD_FIREFOX ?? "/usr/bin/firefox-esr",
  headless: true,
  args: ["--width=1280", "--height=900"],
});
const strange = [];
try {
  const page = await browser.newPage();
  const origin = `http://127.0.0.1:${port}/`;
  page.on("request", (request) => {
    if (!request.url().startsWith(origin) && !/^(data|blob):/.test(request.url())) strange.push(request.url());
  });
  page.on("pageerror", (fault) => strange.push(fault.message));
  const settled = () => page.waitForSelector("body[data-idle]", { timeout: 60_000 });
  const line = () => page.$eval("#head .line", (one) => one.textContent.replace(/\s+/g, " "));
  const start = Date.now();
  await page.goto(origin);
  await settled();
  console.log(`${await browser.version()}: ready after ${Date.now() - start} ms`);
  assert.match(await line(), /^does not fit ?needs [\d.]+ GiB/);

  await page.$eval('[data-slide="training.sequence_length"]', (slide) => {
    slide.value = "12";
    slide.dispatchEvent(new Event("input", { bubbles: true }));
    slide.dispatchEvent(new Event("change", { bubbles: true }));
  });
  await new Promise((resolve) => setTimeout(resolve, 400));
  await settled();
  assert.match(await line(), /^fits ?needs/);

  await page.goto("about:blank");
  await page.goto(`${origin}#m=llama-3.1-8b&on=8xh100-sxm-80gb&engine=fsdp2&seq=16384&gbs=64`);
  await settled();
  await page.click('[data-apply="0"]');
  await page.waitForFunction(() => /^(fits|tight)/.test(document.querySelector("#head .line")?.textContent ?? ""), { timeout: 30_000 });
  const [applied, link] = [await line(), page.url()];

  await page.evaluate(() => {
    const words =
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 7.83 GiB. GPU 3 has a total capacity of 79.11 GiB of which 4.52 GiB is free. Including non-PyTorch memory, this process has 74.58 GiB memory in use. Of the allocated memory 71.20 GiB is allocated by PyTorch, and 1.86 GiB is reserved by PyTorch but unallocated.\n";
    const data = new DataTransfer();
    data.items.add(new File([words], "train.log", { type: "text/plain" }));
    window.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
  });
  await page.waitForSelector("#diagnosis .asked", { timeout: 30_000 });
  assert.match(await page.$eval("#diagnosis .asked", (one) => one.textContent), /logits/);

  await page.click("#tab-plan");
  await page.waitForFunction(() => document.querySelector("#plan-head .asked")?.textContent.includes("a step"), { timeout: 120_000 });

  await page.goto("about:blank");
  await page.goto(link.replace(/tab=\w+&?/, ""));
  await settled();
  assert.equal(await line(), applied);
  assert.deepEqual(strange, []);
  console.log("Firefox: the whole journey");
} finally {
  await browser.close();
  server.kill();
}
