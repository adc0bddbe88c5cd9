// The page works without a network once it was loaded: what was fetched last is kept.
const KEPT = "paceline";
const FILES = ["./", "page.js", "along.js", "contestants.js", "cursor.js", "dom.js", "editor.js", "own.js", "path.js", "picture.js", "presets.js", "race.js", "share.js", "toml.js", "units.js",
  "worker.js", "page.css", "look.css", "report.html", "paceline.wasm"];

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(KEPT).then((kept) => kept.addAll(FILES)).then(() => self.skipWaiting()));
});
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET" || !request.url.startsWith(self.registration.scope)) return;
  event.respondWith(fetch(request).then((answer) => {
    const copy = answer.clone();
    if (answer.ok) caches.open(KEPT).then((kept) => kept.put(request, copy));
    return answer;
  }).catch(async () => (await caches.match(request, { ignoreSearch: true })) ?? Response.error()));
});
