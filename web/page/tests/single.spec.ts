// The one file: it opens from disk, without a server and without a network.

import path from "node:path";
import { pathToFileURL } from "node:url";
import { expect, settled, verdict } from "./page";
import { test } from "@playwright/test";

const built = process.env["STEELYARD_PAGE"] ?? path.resolve(import.meta.dirname, "../../../build/page");

test("the single file opens from disk and answers", async ({ browser }) => {
  const context = await browser.newContext({ offline: true });
  const page = await context.newPage();
  const faults: string[] = [];
  page.on("pageerror", (fault) => faults.push(fault.message));
  page.on("console", (line) => line.type() === "error" && faults.push(line.text()));
  await page.goto(pathToFileURL(path.join(built, "steelyard.html")).href);
  await settled(page);
  const before = await verdict(page);
  await page.locator('[data-apply="0"]').click();
  await settled(page);
  expect(await verdict(page)).not.toBe(before);
  expect(await verdict(page)).toMatch(/^fits/);
  expect(faults).toEqual([]);
  await context.close();
});
