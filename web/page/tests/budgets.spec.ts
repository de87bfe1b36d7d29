// What the page costs: sizes are held, times are measured and printed (a shared machine's clock proves nothing).

import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";
import type { Page } from "@playwright/test";
import { expect, open, settled, test, verdict } from "./page";
import { snapshotParts } from "./snapshots";

const built = process.env["STEELYARD_PAGE"] ?? path.resolve(import.meta.dirname, "../../../build/page");
const kB = (bytes: number): string => `${(bytes / 1000).toFixed(0)} kB`;

function size(name: string): { gzip: number; brotli: number } {
  const bytes = readFileSync(path.join(built, name));
  return { gzip: gzipSync(bytes, { level: 9 }).length, brotli: brotliCompressSync(bytes).length };
}

test("sizes: the page with its worked answer, the script, the core", () => {
  const html = size("index.html");
  const assets = readdirSync(path.join(built, "assets")).map((name) => size(`assets/${name}`).gzip);
  const script = assets.reduce((sum, one) => sum + one, 0);
  const first = size("core/steelyard-first.wasm");
  const core = size("core/steelyard.wasm");
  console.log(
    `page ${kB(html.gzip)} gzip · script and style ${kB(script)} gzip · first module ${kB(first.brotli)} brotli · whole core ${kB(core.brotli)} brotli`,
  );
  expect(html.gzip).toBeLessThan(40_000);
  expect(first.brotli).toBeLessThan(600_000);
  expect(script).toBeLessThan(40_000);
});

async function dropSnapshot(page: Page, name: string, bytes: number): Promise<number> {
  const parts = snapshotParts(bytes);
  const start = Date.now();
  await page.evaluate(
    ([called, head, block, tail, blocks]) => {
      const part = new Uint8Array(block as number[]);
      const all = [new Uint8Array(head as number[]), ...Array.from({ length: blocks as number }, () => part), new Uint8Array(tail as number[])];
      const data = new DataTransfer();
      data.items.add(new File(all, called as string));
      window.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
    },
    [name, parts.head, parts.block, parts.tail, parts.blocks] as const,
  );
  await expect(page.locator("#diagnosis")).not.toContainText("reading", { timeout: 150_000 });
  return Date.now() - start;
}

test("a snapshot of 100 MB is read", async ({ page }) => {
  await open(page);
  await dropSnapshot(page, "warm.pickle", 1e6);
  const took = await dropSnapshot(page, "large.pickle", 1e8);
  console.log(`100 MB snapshot: ${took} ms`);
  await expect(page.locator("#diagnosis")).toContainText("In the terminal's words");
});

test("a snapshot of a gigabyte is read or refused in words, and the tab lives on", async ({ page }) => {
  test.setTimeout(240_000);
  await open(page);
  const took = await dropSnapshot(page, "huge.pickle", 2 ** 30);
  const said = (await page.locator("#diagnosis").innerText()).split("\n").slice(0, 2).join(" ");
  console.log(`1 GiB snapshot: ${took} ms: ${said}`);
  expect(said).toMatch(/\d/);
  await page.getByRole("tab", { name: "Weigh" }).click();
  await page.locator("#k-training-micro-batch").fill("2");
  await settled(page);
  expect(await verdict(page)).toContain("needs");
});

test("times at a quarter of this machine's speed", async ({ page }) => {
  const session = await page.context().newCDPSession(page);
  await session.send("Emulation.setCPUThrottlingRate", { rate: 4 });
  const start = Date.now();
  await open(page);
  const ready = Date.now() - start;
  const paint = await page.evaluate(
    () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Number.NaN,
  );
  await page.evaluate(() => {
    const frames: number[] = [];
    let last = performance.now();
    const frame = (now: number): void => {
      frames.push(now - last);
      last = now;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    (window as unknown as { frames: number[] }).frames = frames;
  });
  const slider = page.locator('[data-slide="training.sequence_length"]');
  const box = (await slider.boundingBox()) as { x: number; y: number; width: number; height: number };
  await page.mouse.move(box.x + box.width * 0.6, box.y + box.height / 2);
  await page.mouse.down();
  await page.evaluate(() => ((window as unknown as { frames: number[] }).frames.length = 0));
  for (let step = 0; step < 60; step += 1)
    await page.mouse.move(box.x + box.width * (0.6 - step * 0.005), box.y + box.height / 2);
  const frames = await page.evaluate(() => [...(window as unknown as { frames: number[] }).frames].sort((a, b) => a - b));
  await page.mouse.up();
  await settled(page);
  const at = (share: number): string => (frames[Math.floor(frames.length * share)] ?? Number.NaN).toFixed(1);
  const shift = await page.evaluate(
    () =>
      new Promise<number>((resolve) => {
        let sum = 0;
        new PerformanceObserver((list) => {
          for (const entry of list.getEntries() as unknown as { value: number; hadRecentInput: boolean }[])
            if (!entry.hadRecentInput) sum += entry.value;
        }).observe({ type: "layout-shift", buffered: true });
        setTimeout(() => resolve(sum), 300);
      }),
  );
  console.log(
    `first paint ${paint.toFixed(0)} ms · all answered ${ready} ms · frames of a drag: median ${at(0.5)} ms, 95 % ${at(0.95)} ms of ${frames.length} · layout shift ${shift.toFixed(3)}`,
  );
  expect(frames.length).toBeGreaterThan(10);
});
