// node check.mjs FOLDER: every link of the built site leads to a file of it, and where it names a place, the place is there; nothing
// is fetched from another host when a page opens.

import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import path from "node:path";

const folder = path.resolve(process.argv[2]);
const files = readdirSync(folder, { recursive: true })
  .map(String)
  .filter((name) => name.endsWith(".html") && !/^(examples|include|docs\/schemas)\//.test(name));
const pages = new Map(files.map((name) => [name, readFileSync(path.join(folder, name), "utf8")]));
const unquoted = (text) => text.replace(/&amp;/g, "&").replace(/&#39;/g, "'").replace(/&quot;/g, '"');
const ids = new Map([...pages].map(([name, text]) => [name, new Set([...text.matchAll(/\sid="([^"]+)"/g)].map((one) => unquoted(one[1])))]));

function fileOf(target) {
  const place = path.join(folder, target);
  if (existsSync(place) && statSync(place).isFile()) return target;
  for (const name of [`${target}.html`, path.join(target, "index.html")]) if (existsSync(path.join(folder, name))) return name;
  return undefined;
}

const faults = [];
let links = 0;
for (const [name, text] of pages) {
  for (const [, address] of text.matchAll(/<(?:script|img|source|iframe)\b[^>]*\ssrc="([^"]+)"/g))
    if (/^(https?:)?\/\//.test(address)) faults.push(`${name}: fetches ${address}`);
  for (const [, address] of text.matchAll(/<link\b[^>]*\shref="([^"]+)"/g))
    if (/^(https?:)?\/\//.test(address)) faults.push(`${name}: fetches ${address}`);
  if (name === "404.html") continue;
  for (const [, href] of text.matchAll(/<a\b[^>]*\shref="([^"]*)"/g)) {
    const address = unquoted(href);
    if (/^[a-z]+:/i.test(address) || address === "") continue;
    links += 1;
    const [target, place] = address.split("#");
    const wanted = decodeURIComponent(target);
    const found = target === "" ? name : fileOf(wanted.startsWith("/") ? wanted.slice(1) : path.join(path.dirname(name), wanted));
    if (found === undefined) faults.push(`${name}: ${address}: no such page or file`);
    else if (place && ids.has(found) && !ids.get(found).has(decodeURIComponent(place))) faults.push(`${name}: ${address}: no such place`);
  }
}
for (const fault of faults) console.error(fault);
console.log(`${pages.size} pages, ${links} links${faults.length ? `, ${faults.length} faults` : ": all lead somewhere, nothing comes from another host"}`);
process.exitCode = faults.length || pages.size < 15 || links < 100 ? 1 : 0;
