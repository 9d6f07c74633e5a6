/** Owns the in-process MCP servers: their tools run in this program, and the CLI calls them through the daemon. */
import type { JsonRpc } from './frames.js';

/** The effect of a tool on the world, as MCP says it. The CLI heeds it, as when it plans. */
export interface ToolAnnotations {
  title?: string;
  readOnlyHint?: boolean;
  destructiveHint?: boolean;
  idempotentHint?: boolean;
  openWorldHint?: boolean;
}

/** The result of a call, as MCP has it. */
export interface ToolResult {
  content: ({ type: string } & Record<string, unknown>)[];
  isError?: boolean;
  structuredContent?: Record<string, unknown>;
}

/** A tool. */
export interface McpTool {
  /** Its name; the CLI knows it as `mcp__<server>__<name>`. */
  name: string;
  /** The description of its work, for the model. */
  description?: string;
  /** The JSON Schema of its arguments. Default: an object of anything. */
  inputSchema?: Record<string, unknown>;
  /** Hints about it. */
  annotations?: ToolAnnotations;
  /** Does it. A text is a result with this text; what is thrown is a result that is an error. */
  call(args: Record<string, unknown>, context: { signal: AbortSignal }): string | ToolResult | Promise<string | ToolResult>;
}

/** A server. */
export interface McpServer {
  /** Its tools. */
  tools: McpTool[];
  /** Its version, for the CLI. Default: `0`. */
  version?: string;
  /** The words that the model is told about it. */
  instructions?: string;
}

/** The answer of a server to a message, as the CLI takes it. */
export async function respond(name: string, server: McpServer, message: JsonRpc, signal: AbortSignal): Promise<unknown> {
  // The official SDK answers a notification in this way.
  if (message.id === undefined || message.id === null) return { jsonrpc: '2.0', result: {}, id: 0 };
  const { id } = message;
  try {
    return { jsonrpc: '2.0', id, result: await result(name, server, message, signal) };
  } catch (error) {
    if (!(error instanceof RpcError)) throw error;
    return { jsonrpc: '2.0', id, error: { code: error.code, message: error.message } };
  }
}

class RpcError extends Error {
  constructor(readonly code: number, message: string) {
    super(message);
  }
}

async function result(name: string, server: McpServer, message: JsonRpc, signal: AbortSignal): Promise<unknown> {
  const params = message.params ?? {};
  switch (message.method) {
    case 'initialize':
      return {
        protocolVersion: params.protocolVersion,
        capabilities: { tools: {} },
        serverInfo: { name, version: server.version ?? '0' },
        ...(server.instructions === undefined ? {} : { instructions: server.instructions }),
      };
    case 'ping':
      return {};
    case 'tools/list':
      return { tools: server.tools.map(({ call: _, ...tool }) => ({ ...tool, inputSchema: tool.inputSchema ?? { type: 'object' } })) };
    case 'tools/call': {
      const tool = server.tools.find((it) => it.name === params.name);
      if (!tool) throw new RpcError(-32602, `there is no tool ${String(params.name)}`);
      try {
        const made = await tool.call((params.arguments ?? {}) as Record<string, unknown>, { signal });
        if (typeof made === 'string') return { content: [{ type: 'text', text: made }] };
        if (typeof made !== 'object' || made === null) throw new TypeError(`the tool ${tool.name} gave neither a text nor a result`);
        return made;
      } catch (error) {
        return { content: [{ type: 'text', text: error instanceof Error ? error.message : String(error) }], isError: true };
      }
    }
    default:
      throw new RpcError(-32601, `there is no method ${String(message.method)}`);
  }
}
