// How the page looks: few pictures, each looked at when it is written (npx playwright test goldens --update-snapshots). Charts are
// held by their text elsewhere; here layout, colours and type are. A hundredth of a picture may differ: fonts are drawn by the system.

import { expect, settled, test } from "./page";

test.use({ deviceScaleFactor: 1 });

const PICTURES: [name: string, fragment: string, width: number, height: number, scheme: "light" | "dark"][] = [
  ["weigh", "#m=llama-3.1-8b&on=8xh100-sxm-80gb&engine=fsdp2&seq=16384&gbs=64", 1280, 900, "light"],
  ["weigh-dark", "#m=llama-3.1-8b&on=8xh100-sxm-80gb&engine=fsdp2&seq=16384&gbs=64", 1280, 900, "dark"],
  ["weigh-phone", "#m=llama-3.1-8b&on=8xh100-sxm-80gb&engine=fsdp2&seq=16384&gbs=64", 320, 640, "light"],
  ["plan", "#tab=plan&m=llama-3.1-8b&on=8xh100-sxm-80gb&seq=4096&gbs=64", 1280, 900, "light"],
  ["diagnose-dark", "#tab=diagnose&m=llama-3.1-8b&on=8xh100-sxm-80gb&seq=4096&gbs=64", 1280, 900, "dark"],
  ["learn", "#tab=learn&m=llama-3.1-8b&on=8xh100-sxm-80gb&seq=4096&gbs=64", 1280, 900, "light"],
];

for (const [name, fragment, width, height, colorScheme] of PICTURES)
  test(`as it was: ${name}`, async ({ browser, baseURL }) => {
    const context = await browser.newContext({ colorScheme, viewport: { width, height }, reducedMotion: "reduce" });
    const page = await context.newPage();
    await page.goto(`${baseURL}${fragment}`);
    await settled(page);
    if (name === "plan") await expect(page.locator("#plan-head")).toBeVisible({ timeout: 40_000 });
    if (name.startsWith("diagnose")) {
      await page.getByRole("button", { name: "show an example" }).click();
      await expect(page.locator("#diagnosis .asked")).toBeVisible({ timeout: 20_000 });
    }
    await expect(page).toHaveScreenshot(`${name}.png`, { maxDiffPixelRatio: 0.01, caret: "hide", animations: "disabled" });
    await context.close();
  });
