// What every journey does first: open the page, refuse every request to another origin, and wait until the core has answered.

import { expect, test as base, type Page } from "@playwright/test";

export const test = base.extend<{ strange: string[] }>({
  // Requests to another origin, and faults of the script: both must stay empty.
  strange: [
    async ({ page, baseURL }, use) => {
      const strange: string[] = [];
      page.on("request", (request) => {
        const address = request.url();
        if (!address.startsWith(baseURL ?? "") && !/^(data|blob):/.test(address)) strange.push(address);
      });
      page.on("pageerror", (fault) => strange.push(fault.message));
      page.on("console", (line) => {
        if (line.type() === "error") strange.push(line.text());
      });
      await use(strange);
      expect(strange).toEqual([]);
    },
    { auto: true },
  ],
});

export async function open(page: Page, fragment = ""): Promise<void> {
  await page.goto(fragment === "" ? "./" : `./${fragment}`);
  await settled(page);
}

// The newest question is answered, and the search for changes too.
export async function settled(page: Page): Promise<void> {
  await expect(page.locator("body[data-idle]")).toBeAttached({ timeout: 30_000 });
}

export async function verdict(page: Page): Promise<string> {
  return (await page.locator("#head .line").innerText()).replace(/\s+/g, " ");
}

// A file as a hand would drop it.
export async function drop(page: Page, name: string, content: string | Buffer): Promise<void> {
  const base64 = Buffer.from(content).toString("base64");
  await page.evaluate(
    ([called, text]) => {
      const bytes = Uint8Array.from(atob(text as string), (character) => character.charCodeAt(0));
      const data = new DataTransfer();
      data.items.add(new File([bytes], called as string));
      window.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
    },
    [name, base64],
  );
}

export { expect };
