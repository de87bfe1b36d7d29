// The report that `--html` writes: it opens from disk without a network, prints to two pages, and carries its run.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "@playwright/test";

const program = process.env["STEELYARD"] ?? path.resolve(import.meta.dirname, "../../../build/release/steelyard");

const RUNS: [string, string[]][] = [
  ["does not fit", ["llama-3.1-8b", "--on", "8xh100-sxm-80gb", "--sequence-length", "16384"]],
  ["pipeline", ["llama-3.1-70b", "--on", "64xh100-sxm-80gb", "--engine", "megatron", "--tensor", "8", "--pipeline", "4", "--global-batch", "128"]],
  ["one card", ["gpt2", "--on", "1xrtx-4090"]],
];

test.describe("report.html", () => {
  let folder = "";
  test.beforeAll(() => {
    folder = mkdtempSync(path.join(tmpdir(), "steelyard-report-"));
  });
  test.afterAll(() => rmSync(folder, { recursive: true }));

  const write = (name: string, words: string[]): string => {
    const file = path.join(folder, name);
    const done = spawnSync(program, ["weigh", ...words, "--html", file], { encoding: "utf8" });
    expect(done.status, done.stderr).toBeLessThanOrEqual(1);
    return file;
  };

  for (const [name, words] of RUNS)
    test(`opens from disk and prints to two pages: ${name}`, async ({ browser }) => {
      const file = write("report.html", words);
      const context = await browser.newContext({ offline: true });
      const page = await context.newPage();
      const asked: string[] = [];
      page.on("request", (request) => asked.push(request.url()));
      page.on("console", (line) => line.type() === "error" && asked.push(line.text()));
      await page.goto(pathToFileURL(file).href);
      expect(asked).toEqual([pathToFileURL(file).href]);
      await expect(page.locator("h1")).toContainText("needs");
      await expect(page.locator("figure svg").first()).toBeVisible();
      const printed = (await page.pdf({ preferCSSPageSize: true })).toString("latin1");
      const pages = printed.match(/\/Type\s*\/Page[^s]/g)?.length ?? 0;
      expect(pages).toBeGreaterThanOrEqual(1);
      expect(pages).toBeLessThanOrEqual(2);
      await context.close();
    });

  test("a report is compared with another, and with itself", () => {
    const before = write("report.html", RUNS[0]?.[1] ?? []);
    const after = write("other.html", [...(RUNS[0]?.[1] ?? []), "--micro-batch", "2"]);
    const differs = spawnSync(program, ["compare", before, after], { encoding: "utf8" });
    expect(differs.status, differs.stderr).toBe(1);
    expect(differs.stdout).toContain("activations");
    expect(spawnSync(program, ["compare", before, before], { encoding: "utf8" }).status).toBe(0);
  });
});
