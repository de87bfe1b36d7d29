// The documents as a site, in build/docs: the Markdown files of the repository as they are, with a search that needs no server.
//
// Its root is the repository, so that a link is the same here and where the files are read: README.md is the front page,
// docs/x.md is /docs/x. What a page links to and is no page (a licence, an example, a header) is published beside it.

import { cpSync, existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig, type MarkdownRenderer } from "vitepress";

const root = path.resolve(import.meta.dirname, "../../..");
const PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "truth/README.md"];
const BESIDE = ["LICENSE", "CITATION.cff", "include", "examples", "docs/schemas", "docs/peers.json"];

const page = (text: string, link: string): { text: string; link: string } => ({ text, link });

// A static host lists no folder.
function listed(folder: string): void {
  const entries = readdirSync(folder, { withFileTypes: true }).sort((a, b) => a.name.localeCompare(b.name));
  for (const entry of entries) if (entry.isDirectory()) listed(path.join(folder, entry.name));
  const escaped = (text: string): string => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/"/g, "&quot;");
  const rows = entries.map(({ name }) => `<li><a href="${encodeURIComponent(name)}">${escaped(name)}</a></li>`).join("\n");
  const title = escaped(path.basename(folder));
  writeFileSync(
    path.join(folder, "index.html"),
    `<!doctype html><html lang="en"><meta charset="utf-8"><title>${title}</title><h1>${title}</h1><ul>\n${rows}\n</ul></html>\n`,
  );
}

// A link to what is no page stays as it is written, and leads to a file that is published beside the pages.
function keepFileLinks(markdown: MarkdownRenderer): void {
  markdown.core.ruler.push("file-links", (state) => {
    const links = state.tokens.flatMap((token) => token.children ?? []).filter((token) => token.type === "link_open");
    for (const link of links) {
      const href = link.attrGet("href") ?? "";
      if (/^[a-z]+:|^#|\.md(#|$)/i.test(href)) continue;
      const file = path.relative(root, path.resolve(path.dirname((state.env as { realPath?: string; path: string }).realPath ?? state.env.path), href));
      if (!existsSync(path.join(root, file)) || !BESIDE.some((name) => file === name || file.startsWith(`${name}/`)))
        throw new Error(`${state.env.path}: ${href}: no page, and no file that is published`);
      if (statSync(path.join(root, file)).isDirectory()) link.attrSet("href", `${href.replace(/\/$/, "")}/index.html`);
      link.attrSet("target", "_self");
    }
  });
}

export default defineConfig({
  title: "Steelyard",
  description: "Memory and step time of a large-model training run, before it is launched",
  lang: "en",
  srcDir: root,
  outDir: path.join(root, "build/docs"),
  cacheDir: path.join(root, "build/docs-cache"),
  base: (process.env["STEELYARD_DOCS_BASE"] ?? "/") as `/${string}/`,
  // Everything but the pages.
  srcExclude: [
    "{.cache,.github,bench,build,cmake,data,examples,fuzz,include,packaging,python,src,tests,tools,web}/**",
    "docs/{site,schemas}/**",
    "truth/*/**/*.md",
    ...readdirSync(root).filter((name) => name.endsWith(".md") && !PAGES.includes(name)),
  ],
  rewrites: { "README.md": "index.md" },
  lastUpdated: false,
  markdown: { config: keepFileLinks },
  themeConfig: {
    search: { provider: "local" },
    outline: [2, 3],
    nav: [page("Answers", "/docs/answers"), page("Diagnose", "/docs/diagnose"), page("How it works", "/docs/how-it-works"), page("How right", "/docs/validation")],
    sidebar: [
      { text: "Start", items: [page("What it is", "/"), page("What it answers", "/docs/answers"), page("After an out-of-memory error", "/docs/diagnose")] },
      {
        text: "Use",
        items: [page("Launch files", "/docs/launch-files"), page("What is launched", "/docs/launched"), page("Python", "/docs/python"), page("Other programs", "/docs/machines"), page("Models", "/docs/models"), page("Speed", "/docs/speed")],
      },
      {
        text: "Why",
        items: [page("How it works", "/docs/how-it-works"), page("Strategies", "/docs/strategies"), page("Rules", "/docs/rules")],
      },
      {
        text: "How right",
        items: [page("Against measured runs", "/docs/validation"), page("On a GPU", "/docs/on-a-gpu"), page("Against real deaths", "/docs/deaths"), page("Open differences", "/docs/open-differences"), page("Others", "/docs/peers"), page("Recordings", "/truth/README")],
      },
      { text: "Project", items: [page("Changes", "/CHANGELOG"), page("Contributing", "/CONTRIBUTING"), page("Security", "/SECURITY")] },
    ],
  },
  vite: {
    logLevel: "warn",
    // The pages lie outside of this folder: what they are compiled to finds its library here.
    resolve: {
      alias: ["vue/server-renderer", "vue"].map((name) => ({
        find: new RegExp(`^${name}$`),
        replacement: fileURLToPath(import.meta.resolve(name)),
      })),
    },
  },
  buildEnd: (site) => {
    for (const name of BESIDE) {
      const target = path.join(site.outDir, name);
      mkdirSync(path.dirname(target), { recursive: true });
      cpSync(path.join(root, name), target, { recursive: true });
      if (statSync(target).isDirectory()) listed(target);
    }
  },
});
