// Keyboard, contrast, narrow screens, both themes, no network.

import AxeBuilder from "@axe-core/playwright";
import type { Page } from "@playwright/test";
import { expect, open, settled, test, verdict } from "./page";

const TABS = ["weigh", "plan", "diagnose", "learn"];

for (const colorScheme of ["light", "dark"] as const)
  test(`axe finds nothing serious on any tab, ${colorScheme}`, async ({ browser, baseURL }) => {
    const context = await browser.newContext({ colorScheme, viewport: { width: 1280, height: 900 } });
    const page = await context.newPage();
    for (const tab of TABS) {
      await page.goto("about:blank");
      await page.goto(`${baseURL}#tab=${tab}&m=llama-3.1-8b&on=8xh100-sxm-80gb&seq=4096&gbs=64&pile=activations`);
      await settled(page);
      if (tab === "plan") await expect(page.locator("#plan-head")).toBeVisible({ timeout: 40_000 });
      const found = await new AxeBuilder({ page }).withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]).analyze();
      expect(found.violations.map((one) => `${tab}: ${one.id} ${one.nodes[0]?.html ?? ""}`)).toEqual([]);
    }
    await context.close();
  });

test("the whole journey by keyboard", async ({ page }) => {
  await open(page);
  await page.keyboard.press("s");
  await expect(page.locator('[data-slide="training.sequence_length"]')).toBeFocused();
  await page.keyboard.press("Shift+ArrowLeft");
  await page.keyboard.press("Shift+ArrowLeft");
  await settled(page);
  await expect(page.locator("#head .verdict")).toHaveText("fits");
  await page.keyboard.press("e");
  await expect(page.locator("#why")).toContainText("Why activations");
  await page.keyboard.press("4");
  await expect(page.locator("#why")).toContainText("Why optimizer moments");
  await page.keyboard.press("Escape");
  await expect(page.locator("#why")).toBeHidden();
  await page.keyboard.press("c");
  await expect(page.locator("#pinned")).toBeVisible();
  await page.keyboard.press("/");
  await expect(page.locator("#k-model")).toBeFocused();
});

for (const [words, width, height] of [
  ["320 pixels", 320, 640],
  ["200 % zoom", 640, 450],
] as const)
  test(`no side scrolling at ${words}`, async ({ browser, baseURL }) => {
    const context = await browser.newContext({ viewport: { width, height } });
    const page = await context.newPage();
    for (const tab of TABS) {
      await page.goto("about:blank");
      await page.goto(`${baseURL}#tab=${tab}&m=llama-3.1-8b&on=8xh100-sxm-80gb&seq=4096&gbs=64&pile=activations`);
      await settled(page);
      if (tab === "plan") await expect(page.locator("#plan-head")).toBeVisible({ timeout: 40_000 });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      expect(wide, tab).toBeLessThanOrEqual(width);
    }
    await context.close();
  });

// Text of a chart as it stands on the screen: its height, and whether the chart's frame cuts it.
function labelsOf(page: Page): Promise<{ words: string; size: number; cut: boolean }[]> {
  return page.evaluate(() =>
    [...document.querySelectorAll<SVGTextElement>("main svg.sy-chart text")]
      .filter((one) => one.checkVisibility())
      .map((one) => {
        const scale = one.getScreenCTM()?.a ?? 0;
        const [box, frame] = [one.getBoundingClientRect(), (one.ownerSVGElement as SVGSVGElement).getBoundingClientRect()];
        const size = Number.parseFloat(getComputedStyle(one).fontSize) * scale;
        return { words: one.textContent ?? "", size, cut: box.left < frame.left - 1 || box.right > frame.right + 1 };
      }),
  );
}

test("labels of the charts can be read on 320 pixels", async ({ browser, baseURL }) => {
  const context = await browser.newContext({ viewport: { width: 320, height: 640 } });
  const page = await context.newPage();
  for (const run of ["m=llama-3.1-8b&on=8xh100-sxm-80gb&seq=16384&gbs=64", "m=llama-3.1-70b&on=64xh100-sxm-80gb&engine=megatron&seq=8192&gbs=128&tp=8&pp=4&zero=1"]) {
    await page.goto("about:blank");
    await page.goto(`${baseURL}#${run}`);
    await settled(page);
    const labels = await labelsOf(page);
    expect(labels.length).toBeGreaterThan(30);
    expect(labels.filter((one) => one.size < 10 || one.cut)).toEqual([]);
  }
  await context.close();
});

test("after the first visit it works without a network", async ({ browser, baseURL }) => {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(baseURL as string);
  await settled(page);
  await page.evaluate(() => navigator.serviceWorker.ready);
  await context.setOffline(true);
  await page.reload();
  await settled(page);
  expect(await verdict(page)).toContain("needs");
  await context.close();
});
