// The page in Debian's Chromium: `make verify-page`, or here: npx playwright test.

import path from "node:path";
import { defineConfig } from "@playwright/test";

const built = process.env["STEELYARD_PAGE"] ?? path.resolve(import.meta.dirname, "../../build/page");
const port = Number(process.env["STEELYARD_PAGE_PORT"] ?? 4173);

export default defineConfig({
  testDir: "tests",
  outputDir: "test-results",
  workers: 1,
  timeout: 60_000,
  reporter: [["list"]],
  use: {
    baseURL: `http://127.0.0.1:${port}/`,
    viewport: { width: 1280, height: 900 },
    launchOptions: {
      executablePath: process.env["STEELYARD_CHROMIUM"] ?? "/usr/bin/chromium",
      args: [
        "--no-sandbox",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--font-render-hinting=none",
        "--disable-lcd-text",
        "--force-color-profile=srgb",
      ],
    },
  },
  webServer: {
    command: `node tests/serve.mjs ${JSON.stringify(built)} ${port}`,
    port,
    reuseExistingServer: false,
  },
});
