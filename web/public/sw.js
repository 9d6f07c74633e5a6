// Owns what an installed page has without a network: the files of the build, and nothing that a person wrote or an agent said.
const CACHE = 'trunkline-files';
const INDEX = '/';

addEventListener('install', () => { skipWaiting(); });
addEventListener('activate', (event) => { event.waitUntil(clients.claim()); });

/** Keeps an answer; a full disk keeps nothing. */
async function keep(request, response) {
  if (!response.ok) return;
  const cache = await caches.open(CACHE);
  await cache.put(request, response).catch(() => undefined);
}

/** Files whose names change with their content never change. */
async function asset(request) {
  const kept = await caches.match(request);
  if (kept) return kept;
  const response = await fetch(request);
  await keep(request, response.clone());
  return response;
}

/** The page itself is the daemon's; without one it is the last that was seen, with the files that it names. */
async function page(request) {
  try {
    const response = await fetch(request);
    if (response.ok && response.headers.get('content-type')?.startsWith('text/html')) {
      const cache = await caches.open(CACHE);
      const text = await response.clone().text();
      const wanted = new Set([...text.matchAll(/\/assets\/[\w.-]+/g)].map(([path]) => path));
      await keep(INDEX, response.clone());
      // Files of an earlier build that nobody has asked for since go when there are many.
      const names = (await cache.keys()).map(({ url }) => new URL(url).pathname).filter((path) => path.startsWith('/assets/'));
      if (names.length > 200) await Promise.all(names.filter((path) => !wanted.has(path)).map((path) => cache.delete(path)));
    }
    return response;
  } catch (error) {
    const kept = await caches.match(INDEX);
    if (kept) return kept;
    throw error;
  }
}

addEventListener('fetch', (event) => {
  const { request } = event;
  const { origin, pathname } = new URL(request.url);
  if (request.method !== 'GET' || origin !== location.origin) return;
  if (pathname.startsWith('/assets/')) event.respondWith(asset(request));
  else if (request.mode === 'navigate' && !/^\/(?:v1|docs|openapi|asyncapi|metrics|healthz|readyz)/.test(pathname)) event.respondWith(page(request));
});

/** A press on a notice goes to a page that is open, as pages alone have a login; without one a page is opened. */
async function answer({ keys, address, deny }, action) {
  const open = (await clients.matchAll({ type: 'window', includeUncontrolled: true })).filter(({ url }) => !/^\/(?:v1|docs)/.test(new URL(url).pathname));
  const page = open.find(({ focused }) => focused) ?? open[0];
  if (page === undefined) return clients.openWindow(address);
  page.postMessage({ type: 'trunkline-notice', keys, address, deny, action });
  return action === 'deny' ? undefined : page.focus().catch(() => undefined);
}

addEventListener('notificationclick', (event) => {
  event.notification.close();
  event.waitUntil(answer(event.notification.data, event.action));
});
