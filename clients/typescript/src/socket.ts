/** Owns one WebSocket of the platform: the browser's, Node's, or that of `ws` where Node has none. */

/** How a socket ended. */
export interface Ended {
  code: number;
  reason: string;
}

/** A socket that is being opened or open. */
export interface Socket {
  send(text: string): void;
  /** Leaves: nothing that is still on its way is waited for. */
  close(): void;
  /** Calls for each frame until the end. */
  each(frame: (text: string) => void): Promise<Ended>;
}

/** Begins to open a socket; a failure shows as an end before the first frame. */
export async function open(url: string, protocols: string[]): Promise<Socket> {
  const Platform = globalThis.WebSocket ?? ((await import('ws')).WebSocket as unknown as typeof WebSocket);
  const socket = new Platform(url, protocols);
  let leave: (ended: Ended) => void = () => undefined;
  let isLeft = false;
  return {
    send: (text) => { if (socket.readyState === 1) socket.send(text); },
    close: () => {
      isLeft = true;
      socket.close();
      leave({ code: 1000, reason: '' });
    },
    each: (frame) => new Promise((resolve, reject) => {
      leave = resolve;
      if (isLeft) resolve({ code: 1000, reason: '' });
      socket.onmessage = ({ data }: MessageEvent) => {
        try {
          if (!isLeft) frame(String(data));
        } catch (error) {
          isLeft = true;
          socket.close();
          reject(error);
        }
      };
      socket.onerror = () => undefined;
      socket.onclose = ({ code, reason }: CloseEvent) => resolve({ code, reason });
    }),
  };
}
