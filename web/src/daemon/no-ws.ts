// Owns the place of the `ws` package, which only Node needs.
export const WebSocket = globalThis.WebSocket;
