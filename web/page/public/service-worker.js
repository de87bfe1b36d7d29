// After the first visit the page opens without a network. What it holds is named by the page's version, so that a new version
// never runs half of an old one.

const HELD = "steelyard-%VERSION%";
const FILES = ["./"];

self.addEventListener("install", (event) => {
  event.waitUntil(
    caches.open(HELD).then((cache) => cache.addAll(FILES).then(() => self.skipWaiting())),
  );
});

self.addEventListener("activate", (event) => {
  event.waitUntil(
    caches
      .keys()
      .then((names) => Promise.all(names.filter((name) => name !== HELD).map((name) => caches.delete(name))))
      .then(() => self.clients.claim()),
  );
});

self.addEventListener("fetch", (event) => {
  const address = new URL(event.request.url);
  if (event.request.method !== "GET" || address.origin !== location.origin) return;
  event.respondWith(
    caches.match(event.request, { ignoreSearch: true, cacheName: HELD }).then((held) => held ?? fetch(event.request)),
  );
});
