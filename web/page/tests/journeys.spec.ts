// What people come for, from the first look to the file they leave with.

import { readFileSync } from "node:fs";
import path from "node:path";
import { drop, expect, open, settled, test, verdict } from "./page";

test("the worked answer stands in the page before any script, and is the same after it", async ({ browser, baseURL }) => {
  const silent = await browser.newContext({ javaScriptEnabled: false });
  const before = await silent.newPage();
  await before.goto(baseURL as string);
  const still = await verdict(before);
  expect(still).toMatch(/^does not fit needs [\d.]+ GiB \([\d.]+ to [\d.]+\), usable 79\.1/);
  await expect(before.locator("#bar svg")).toBeVisible();
  await expect(before.locator("#ways tbody tr").first()).toBeVisible();
  const moving = await browser.newContext();
  const page = await moving.newPage();
  await page.goto(baseURL as string);
  await settled(page);
  expect(await verdict(page)).toBe(still);
  await silent.close();
  await moving.close();
});

test("fit my model: a shorter sequence, seen while it is dragged", async ({ page }) => {
  await open(page);
  const slider = page.locator('[data-slide="training.sequence_length"]');
  const box = (await slider.boundingBox()) as { x: number; y: number; width: number; height: number };
  await page.mouse.move(box.x + box.width * 0.54, box.y + box.height / 2);
  await page.mouse.down();
  for (let step = 0; step < 12; step += 1)
    await page.mouse.move(box.x + box.width * (0.54 - step * 0.02), box.y + box.height / 2);
  await page.mouse.up();
  await settled(page);
  await expect(page.locator("#head .verdict")).toHaveText("fits");
  expect(page.url()).toMatch(/seq=\d+/);
  // One gesture is one entry of the history.
  await page.goBack();
  await page.goForward();
  await settled(page);
  await expect(page.locator("#head .verdict")).toHaveText("fits");
});

test("a change that fits is applied with a click, and the run fits", async ({ page }) => {
  await open(page);
  const promised = await page.locator("#ways tbody tr").first().locator("td").nth(2).innerText();
  await page.locator('[data-apply="0"]').click();
  await settled(page);
  const line = await verdict(page);
  expect(line).toMatch(/^(fits|tight)/);
  expect(line).toContain(`needs ${promised} GiB`);
});

test("an out-of-memory text that is dropped is diagnosed, and its change is laid over the run", async ({ page }) => {
  await open(page);
  const text =
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 7.83 GiB. GPU 3 has a total capacity of 79.11 GiB of which 4.52 GiB is free. Including non-PyTorch memory, this process has 74.58 GiB memory in use. Of the allocated memory 71.20 GiB is allocated by PyTorch, and 1.86 GiB is reserved by PyTorch but unallocated.\n";
  await drop(page, "train.log", text);
  await expect(page.locator("#diagnosis .asked")).toContainText("logits");
  await page.getByRole("button", { name: "training.loss = chunked" }).click();
  await expect(page.locator("#tab-weigh")).toHaveAttribute("aria-selected", "true");
  await settled(page);
  expect(page.url()).toContain("loss=chunked");
});

test("a log of megabytes that is pasted is read to its end", async ({ page }) => {
  await open(page, "#tab=diagnose&m=llama-3.1-8b&on=8xh100-sxm-80gb&seq=4096");
  const lines = Array.from({ length: 40_000 }, (_one, i) => `step ${i} | loss 2.1 | lr 1e-5 | grad norm 0.8 | tokens/s 9000`);
  const died =
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 7.83 GiB. GPU 3 has a total capacity of 79.11 GiB of which 4.52 GiB is free. Including non-PyTorch memory, this process has 74.58 GiB memory in use. Of the allocated memory 71.20 GiB is allocated by PyTorch, and 1.86 GiB is reserved by PyTorch but unallocated.";
  const log = [...lines, died, ""].join("\n");
  expect(log.length).toBeGreaterThan(2_000_000);
  await page.evaluate((text) => {
    const box = document.querySelector<HTMLTextAreaElement>("#oom") as HTMLTextAreaElement;
    box.value = text;
    box.dispatchEvent(new Event("input", { bubbles: true }));
  }, log);
  await expect(page.locator("#diagnosis .asked")).toContainText("logits", { timeout: 20_000 });
});

test("a snapshot of PyTorch that is dropped is diagnosed: its piles, and what was requested", async ({ page }) => {
  await open(page);
  const snapshot = readFileSync(path.resolve(import.meta.dirname, "../../../fuzz/corpus/evidence/llama-expandable.pickle"));
  await drop(page, "oom.pickle", snapshot);
  await expect(page.locator("#tab-diagnose")).toHaveAttribute("aria-selected", "true");
  await expect(page.locator("#diagnosis figure svg [data-pile]").first()).toBeVisible({ timeout: 20_000 });
  await expect(page.locator("#diagnosis")).toContainText("In the terminal's words");
});

test("the snapshot that is taken away is a pickle, and comes back as the run's own piles", async ({ page }) => {
  await open(page, "#m=qwen3-0.6b&on=1xrtx-4090&seq=1024&mbs=1");
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "memory snapshot" }).click(),
  ]);
  expect(download.suggestedFilename()).toBe("snapshot.pickle");
  const bytes = readFileSync(await download.path());
  expect(bytes.length).toBeGreaterThan(10_000);
  expect([...bytes.subarray(0, 1), ...bytes.subarray(-1)]).toEqual([0x80, 0x2e]);
  await drop(page, "snapshot.pickle", bytes);
  await expect(page.locator('#diagnosis figure svg [data-pile="parameters"]').first()).toBeVisible({ timeout: 20_000 });
});

test("lay out 64 devices: progress, then the fastest layout becomes the run", async ({ page }) => {
  await open(page, "#m=llama-3.1-70b&on=64xh100-sxm-80gb&seq=4096&gbs=256");
  const start = Date.now();
  await page.getByRole("tab", { name: "Plan" }).click();
  await expect(page.locator("#plan-progress")).toContainText("of at most", { timeout: 20_000 });
  console.log(`64 devices: first progress after ${Date.now() - start} ms`);
  await expect(page.locator("#plan-head .asked")).toContainText("a step", { timeout: 50_000 });
  console.log(`64 devices: answered after ${Date.now() - start} ms`);
  await expect(page.locator("#plan-figure svg")).toBeVisible();
  const row = page.locator("#plan tbody tr", { has: page.locator(".verdict.fits") }).first();
  const peak = await row.locator("td").nth(11).innerText();
  await row.getByRole("button", { name: "use" }).click();
  await settled(page);
  expect(await verdict(page)).toContain(`needs ${peak} GiB`);
});

test("lay out eight devices: the fastest layout that fits becomes the run", async ({ page }) => {
  await open(page, "#m=llama-3.1-8b&on=8xh100-sxm-80gb&seq=4096&gbs=64");
  await page.getByRole("tab", { name: "Plan" }).click();
  await expect(page.locator("#plan-head .asked")).toContainText("a step", { timeout: 40_000 });
  const row = page.locator("#plan tbody tr", { has: page.locator(".verdict.fits") }).first();
  const peak = await row.locator("td").nth(11).innerText();
  await row.getByRole("button", { name: "use" }).click();
  await settled(page);
  expect(await verdict(page)).toContain(`needs ${peak} GiB`);
});

test("a link carries the run, a model of one's own too", async ({ page, context }) => {
  await open(page);
  await page.evaluate(() => {
    const config = {
      model_type: "llama",
      architectures: ["LlamaForCausalLM"],
      hidden_size: 2048,
      intermediate_size: 5632,
      num_hidden_layers: 22,
      num_attention_heads: 32,
      num_key_value_heads: 4,
      vocab_size: 32000,
      max_position_embeddings: 2048,
      tie_word_embeddings: false,
    };
    const data = new DataTransfer();
    data.items.add(new File([JSON.stringify(config)], "config.json"));
    window.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
  });
  await expect(page.locator("#k-model")).toHaveValue("config.json");
  await settled(page);
  await expect(page).toHaveURL(/z=/);
  const line = await verdict(page);
  expect(line).toMatch(/needs/);
  const other = await context.newPage();
  await other.goto(page.url());
  await settled(other);
  expect(await verdict(other)).toBe(line);
  await expect(other.locator("#k-model")).toHaveValue("config.json");
});

test("a launch file that is dropped becomes the run", async ({ page }) => {
  await open(page);
  await page.evaluate(() => {
    const text =
      "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 4096\nmicro_batch_size: 1\ngradient_accumulation_steps: 4\nbf16: true\noptimizer: adamw_torch\n";
    const data = new DataTransfer();
    data.items.add(new File([text], "axolotl.yaml"));
    window.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
  });
  await expect(page.locator("#k-training-sequence-length")).toHaveValue("4096");
  await settled(page);
  expect(await verdict(page)).toMatch(/needs/);
});

test("a wrong value is said at its field and nothing old is called an answer", async ({ page }) => {
  await open(page);
  await page.locator("#k-model").fill("lama-3.1-8b");
  await page.locator("#k-model").press("Enter");
  await expect(page.locator("#head .verdict")).toHaveText("not weighed");
  await expect(page.locator("#head")).toContainText("llama-3.1-8b");
});

test("names from files are text in every corner of the page", async ({ page }) => {
  const markup = "<img src=x onerror=alert(1)>";
  await open(page, `#m=${encodeURIComponent(markup)}&on=8xh100-sxm-80gb`);
  await expect(page.locator("#head")).toContainText(markup);
  expect(await page.locator("img").count()).toBe(0);
});
