// What the page costs: sizes are held, times are measured and printed (a shared machine's clock proves nothing).

import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { expect, open, settled, test } from "./page";

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
  const core = size("core/steelyard.wasm");
  console.log(`page ${kB(html.gzip)} gzip · script and style ${kB(script)} gzip · core ${kB(core.gzip)} gzip, ${kB(core.brotli)} brotli`);
  expect(html.gzip).toBeLessThan(40_000);
  expect(script).toBeLessThan(40_000);
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
