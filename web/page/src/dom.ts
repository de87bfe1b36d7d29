// The little of a framework that the page needs.

export function at<T extends Element = HTMLElement>(selector: string, within: ParentNode = document): T {
  const found = within.querySelector<T>(selector);
  if (!found) throw new Error(`the page has no ${selector}`);
  return found;
}

export function all<T extends Element = HTMLElement>(selector: string, within: ParentNode = document): T[] {
  return [...within.querySelectorAll<T>(selector)];
}

type Child = Node | string | undefined | false;

// make("td", {class: "n"}, "79.1"): text stays text, so that no name from a file can be markup.
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string | boolean | undefined> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  for (const child of children) if (child) element.append(child);
  return element;
}

export function table(
  headings: string[],
  rows: Child[][],
  attributes: (row: number) => Record<string, string> = () => ({}),
): HTMLTableElement {
  const numeric = headings.map((heading) => heading.endsWith("#"));
  const element = make("table");
  element.append(
    make(
      "thead",
      {},
      make(
        "tr",
        {},
        ...headings.map((heading, i) =>
          make("th", { scope: "col", class: numeric[i] ? "n" : undefined }, heading.replace(/#$/, "")),
        ),
      ),
    ),
  );
  const body = make("tbody");
  rows.forEach((row, index) => {
    body.append(
      make("tr", attributes(index), ...row.map((cell, i) => make("td", { class: numeric[i] ? "n" : undefined }, cell))),
    );
  });
  element.append(body);
  return element;
}

export function download(name: string, content: string | Blob, type = "text/plain"): void {
  const blob = typeof content === "string" ? new Blob([content], { type }) : content;
  const address = URL.createObjectURL(blob);
  const link = make("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

// One line at the foot of the window, also for readers who do not see it.
let toastTimer: ReturnType<typeof setTimeout> | undefined;
export function say(words: string): void {
  const toast = at("#toast");
  toast.textContent = words;
  toast.classList.add("shown");
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => toast.classList.remove("shown"), 3500);
}

export async function copy(text: string, words: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    say(words);
  } catch {
    // From disk and over http some browsers lend no clipboard.
    const box = make("textarea", { class: "offscreen", "aria-hidden": "true" });
    box.value = text;
    document.body.append(box);
    box.select();
    const done = document.execCommand("copy");
    box.remove();
    say(done ? words : "the browser lends no clipboard; the text is selected nowhere");
  }
}
