// node tests/serve.mjs FOLDER PORT: the built page over http, as a static host serves it.

import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer } from "node:http";
import path from "node:path";

const [folder, port] = process.argv.slice(2);
const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm" };

createServer((request, response) => {
  const name = decodeURIComponent(new URL(request.url, "http://page").pathname).replace(/\/$/, "/index.html");
  const file = path.join(folder, path.normalize(name));
  if (!existsSync(file) || !statSync(file).isFile()) {
    response.writeHead(404).end();
    return;
  }
  response.writeHead(200, { "content-type": types[path.extname(file)] ?? "text/plain" });
  createReadStream(file).pipe(response);
}).listen(Number(port), "127.0.0.1", () => console.log("serving"));
