// An MCP server made with the official SDK, for the tests of the bridge. It listens on 127.0.0.1, prints {"url":…} and
// ends when its stdin does. /sse answers with event streams that can be resumed, /json with plain JSON.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";

/** Keeps all events in order; an id is the stream's name and the event's place. */
function eventStore() {
  const events = [];
  const streamOf = (id) => id.slice(0, id.lastIndexOf("/"));
  return {
    async storeEvent(stream, message) {
      events.push({ stream, message });
      return `${stream}/${events.length}`;
    },
    async getStreamIdForEventId(id) {
      return streamOf(id);
    },
    async replayEventsAfter(id, { send }) {
      const after = Number(id.slice(id.lastIndexOf("/") + 1));
      for (const [index, { stream, message }] of events.entries()) {
        if (stream === streamOf(id) && index >= after && Object.keys(message).length > 0) {
          await send(`${stream}/${index + 1}`, message);
        }
      }
      return streamOf(id);
    },
  };
}

function mcpServer() {
  const server = new McpServer({ name: "official", version: "1" }, { capabilities: { logging: {} } });
  const text = (text) => ({ content: [{ type: "text", text }] });
  const input = { inputSchema: { text: z.string() } };
  server.registerTool("echo", input, ({ text: said }) => text(said));
  server.registerTool("roots", input, async (_, { sendNotification, sendRequest }) => {
    await sendNotification({ method: "notifications/message", params: { level: "info", data: "asking" } });
    const answer = await sendRequest({ method: "roots/list" }, z.object({ roots: z.array(z.object({ uri: z.string() })) }));
    return text(answer.roots.map(({ uri }) => uri).join());
  });
  server.registerTool("poll", input, ({ text: said }, { closeSSEStream }) => {
    closeSSEStream();
    return text(said);
  });
  server.registerTool("announce", input, async () => {
    await server.server.sendToolListChanged();
    return text("announced");
  });
  return server;
}

const transports = new Map();

/** The transport of the session, a new one for a request without a session, or nothing. */
async function transportFor(request) {
  const session = request.headers["mcp-session-id"];
  if (session) return transports.get(session);
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    enableJsonResponse: request.url === "/json",
    eventStore: eventStore(),
    retryInterval: 50,
    onsessioninitialized: (id) => void transports.set(id, transport),
    onsessionclosed: (id) => void transports.delete(id),
  });
  await mcpServer().connect(transport);
  return transport;
}

const http = createServer(async (request, response) => {
  if (request.url === "/sessions") {
    response.end(String(transports.size));
    return;
  }
  if (request.url === "/forget") {
    transports.clear();
    response.end();
    return;
  }
  const transport = await transportFor(request);
  if (transport) await transport.handleRequest(request, response);
  else response.writeHead(404).end();
});
http.listen(0, "127.0.0.1", () => console.log(JSON.stringify({ url: `http://127.0.0.1:${http.address().port}` })));
process.stdin.on("end", () => process.exit(0)).resume();
