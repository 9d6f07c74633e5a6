/** Owns the routes: the generated types, sent by `openapi-fetch`, with errors thrown and lost connections made good. */
import createClient from 'openapi-fetch';
import type { MaybeOptionalInit } from 'openapi-fetch';
import type { MediaType, PathsWithMethod, ResponseObjectMap, SuccessResponse } from 'openapi-typescript-helpers';
import type { paths } from './api.js';
import { TrunklineError, UnreachableError } from './errors.js';
import type { Place } from './reach.js';
import { newUuid } from './uuid.js';

type Method = 'get' | 'put' | 'post' | 'patch' | 'delete';
type Data<P extends keyof paths, M extends Method> = paths[P] extends Record<M, infer O extends Record<string | number, unknown>>
  ? [SuccessResponse<ResponseObjectMap<O>, 'application/json'>] extends [never]
    ? SuccessResponse<ResponseObjectMap<O>, MediaType>
    : SuccessResponse<ResponseObjectMap<O>, 'application/json'>
  : never;
type Init<P extends keyof paths, M extends Method> = MaybeOptionalInit<paths[P], M>;
type Rests<I> = undefined extends I ? [init?: I] : [init: I];
type Call<M extends Method> = <P extends PathsWithMethod<paths, M>>(path: P, ...init: Rests<Init<P, M>>) => Promise<Data<P, M>>;

/** Every route of the API, by method and path. Resolves to the body of a success; everything else is thrown. */
export interface Rest {
  GET: Call<'get'>;
  PUT: Call<'put'>;
  POST: Call<'post'>;
  PATCH: Call<'patch'>;
  DELETE: Call<'delete'>;
}

/** The pauses before a request is sent again; the daemon may be starting. */
const PAUSES_MS = [100, 300, 1000, 2000, 4000, 8000];
/** These say that the same request, with the same key, is to come again. */
const COME_AGAIN = new Set(['shutting_down', 'idempotency_in_progress']);

/** A pause that ends early when the signal is aborted. */
export const pause = (ms: number, signal?: AbortSignal) => new Promise<void>((resolve) => {
  const end = () => {
    clearTimeout(timer);
    signal?.removeEventListener('abort', end);
    resolve();
  };
  const timer = setTimeout(end, ms);
  signal?.addEventListener('abort', end);
  if (signal?.aborted) end();
});

/** The routes of the daemon that `place` names; it is asked again when nobody answers. */
export function rest(place: (isLost: boolean) => Promise<Place>, send: typeof fetch): Rest {
  const perform = async (request: Request): Promise<Response> => {
    const body = request.method === 'GET' ? undefined : await request.arrayBuffer();
    const headers = new Headers(request.headers);
    if (request.method === 'POST' && !headers.has('idempotency-key')) headers.set('idempotency-key', newUuid());
    const path = request.url.slice(BASE.length);
    for (let attempt = 0; ; attempt += 1) {
      const { url, token } = await place(attempt > 0);
      if (token !== undefined) headers.set('authorization', `Bearer ${token}`);
      const init: RequestInit = { method: request.method, headers, signal: request.signal };
      if (body?.byteLength) init.body = body;
      const wait = PAUSES_MS[attempt];
      let response: Response;
      try {
        response = await send(url + path, init);
      } catch (error) {
        if (wait === undefined || request.signal.aborted) {
          throw request.signal.aborted ? error : new UnreachableError(`no daemon answers at ${url}`, { cause: error });
        }
        await pause(wait, request.signal);
        continue;
      }
      if (response.ok) return response;
      const text = await response.text();
      const problem = TrunklineError.of(response.status, parsed(text));
      if (wait === undefined || !COME_AGAIN.has(problem.code)) throw problem;
      await pause(wait, request.signal);
    }
  };
  const client = createClient<paths>({ baseUrl: BASE, fetch: perform });
  const of = (method: 'GET' | 'PUT' | 'POST' | 'PATCH' | 'DELETE') =>
    async (path: string, init?: object) => (await (client[method] as Untyped)(path, init)).data;
  return { GET: of('GET'), PUT: of('PUT'), POST: of('POST'), PATCH: of('PATCH'), DELETE: of('DELETE') } as unknown as Rest;
}

type Untyped = (path: string, init?: object) => Promise<{ data?: unknown }>;

/** Stands for the daemon's address, which may change, in what `openapi-fetch` makes. */
const BASE = 'http://trunkline.invalid';

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
