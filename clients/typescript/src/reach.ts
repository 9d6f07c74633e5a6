/** Owns how a program on this machine finds the daemon: as the command line does, by `daemon.json` and the token's file. */
import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { UnreachableError } from './errors.js';

/** Where to look for the daemon. An option that is left out is as for the command line. */
export interface FindOptions {
  /** The data directory. Default: `TRUNKLINE_DATA_DIR`, else `~/.local/state/trunkline`. */
  dataDir?: string;
  /** The daemon's URL. Default: `TRUNKLINE_URL`, else that of `daemon.json` in the data directory. */
  url?: string;
  /** The token's file. Default: `TRUNKLINE_TOKEN_FILE`, else `token` in the data directory. */
  tokenFile?: string;
}

/** Where the daemon is now. */
export interface Place {
  url: string;
  token?: string;
}

/** Finds the daemon. */
export async function find(options: FindOptions = {}): Promise<Place> {
  const { env } = process;
  const dataDir = options.dataDir || env.TRUNKLINE_DATA_DIR || defaultDir();
  const url = options.url || env.TRUNKLINE_URL || (await urlOf(dataDir));
  const tokenFile = options.tokenFile || env.TRUNKLINE_TOKEN_FILE || join(dataDir, 'token');
  const token = await readFile(tokenFile, 'utf8').catch((error: Error) => {
    throw new UnreachableError(`cannot read the token: ${error.message}`);
  });
  return { url: reachable(url), token: token.trim() };
}

function defaultDir(): string {
  const state = process.env.XDG_STATE_HOME;
  return join(state && isAbsolute(state) ? state : join(homedir(), '.local', 'state'), 'trunkline');
}

/** The address in `daemon.json`. Behind a socket of a service manager the file is there once the daemon was asked. */
async function urlOf(dataDir: string): Promise<string> {
  const read = async (): Promise<string | undefined> => {
    const text = await readFile(join(dataDir, 'daemon.json'), 'utf8').catch(() => undefined);
    return text && (JSON.parse(text) as { url: string }).url;
  };
  let url = await read();
  if (!url) {
    const listen = process.env.TRUNKLINE_LISTEN || '127.0.0.1:7433';
    await fetch(`${reachable(`http://${listen}`)}/healthz`, { signal: AbortSignal.timeout(30_000) }).catch(() => undefined);
    url = await read();
  }
  if (!url) throw new UnreachableError(`${dataDir} has no daemon.json: start the daemon with \`trunkline serve\``);
  return url;
}

/** The URL of a daemon that listens on every address, by the one that it answers to. */
function reachable(url: string): string {
  return url.replace('//0.0.0.0', '//127.0.0.1').replace('//[::]', '//[::1]').replace(/\/+$/, '');
}
