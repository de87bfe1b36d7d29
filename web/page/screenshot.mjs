// node screenshot.mjs FILE: README's picture, of the page that was built.

import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { chromium } from "@playwright/test";

const file = path.resolve(process.argv[2] ?? "page.png");
const built = path.resolve(import.meta.dirname, "../../build/page");
const port = 4174;
const server = spawn(process.execPath, [path.join(import.meta.dirname, "tests/serve.mjs"), built, String(port)]);
await once(server.stdout, "data");
const browser = await chromium.launch({
  executablePath: process.env["STEELYARD_CHROMIUM"] ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-quic", "--font-render-hinting=none", "--force-color-profile=srgb"],
});
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 860 } });
  await page.goto(`http://127.0.0.1:${port}/`);
  await page.locator("body[data-idle]").waitFor({ state: "attached", timeout: 30_000 });
  await page.screenshot({ path: file });
} finally {
  await browser.close();
  server.kill();
}
