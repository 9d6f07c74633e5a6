// Owns how the console is built: hashed names, no inline script, templates through one Trusted Types policy.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';
import solid from 'vite-plugin-solid';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** The daemon that `vite dev` passes requests on to, and its token, if the page is to need no login. */
const daemon = process.env.TRUNKLINE_URL ?? 'http://127.0.0.1:7433';
const token = process.env.TRUNKLINE_TOKEN;

/** Puts compressed forms beside each file that gains by it: the daemon only chooses. They are made of what was written, since the
 * text of a file may change up to then. */
function compressed(): Plugin {
  return {
    name: 'compressed',
    apply: 'build',
    writeBundle({ dir }, bundle) {
      for (const name of Object.keys(bundle)) {
        const path = `${dir}/${name}`;
        if (!/\.(?:css|html|js|json|svg|webmanifest)$/.test(name) || !existsSync(path)) continue;
        const bytes = readFileSync(path);
        if (bytes.length < 1024) continue;
        const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length };
        writeFileSync(`${path}.br`, brotliCompressSync(bytes, { params }));
        writeFileSync(`${path}.gz`, gzipSync(bytes, { level: 9 }));
      }
    },
  };
}

export default defineConfig({
  plugins: [solid(), compressed()],
  resolve: {
    alias: [
      { find: 'trunkline-client', replacement: here('../clients/typescript/src/index.ts') },
      { find: /^openapi-fetch$/, replacement: here('./node_modules/openapi-fetch') },
      // A page has a WebSocket of its own, and finds no daemon in files.
      { find: /^ws$/, replacement: here('./src/daemon/no-ws.ts') },
      { find: /^\.\/reach\.js$/, replacement: here('./src/daemon/no-reach.ts') },
      // Compiled templates go through one policy, so that nothing else may make markup of text.
      { find: /^solid-js\/web$/, replacement: here('./src/trusted-templates.ts') },
      { find: /^solid-js-web-itself$/, replacement: here('./node_modules/solid-js/web/dist/web.js') },
    ],
  },
  build: {
    license: { fileName: 'licences.txt' }, target: 'es2022', assetsInlineLimit: 0, modulePreload: { polyfill: false }, reportCompressedSize: false,
    // All that a first load needs is one file: it gets smaller so than in the parts that later ones share.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: 'first', tags: ['$initial'] }] } } },
  },
  worker: { format: 'es' },
  server: {
    port: 5173,
    strictPort: false,
    proxy: {
      '^/(?:v1|docs|openapi\\.json|asyncapi\\.yaml|healthz|readyz|metrics)': {
        target: daemon,
        ws: true,
        changeOrigin: true,
        configure: (proxy) => {
          // The daemon asks for its own origin.
          const ours = (request: { setHeader: (name: string, value: string) => void }) => request.setHeader('origin', daemon);
          proxy.on('proxyReq', (request, from) => {
            if (from.headers.origin) ours(request);
            if (token) request.setHeader('authorization', `Bearer ${token}`);
          });
          proxy.on('proxyReqWs', ours);
        },
      },
    },
  },
  test: { environment: 'happy-dom', include: ['test/**/*.test.ts', 'test/**/*.test.tsx'] },
});
