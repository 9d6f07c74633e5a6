// Owns whether the transcript follows its end. Only a move of the person's own breaks it: wheel, drag or key, never growth or
// shrinking of what is drawn.
import { createSignal, type Accessor } from 'solid-js';

/** At the end means within so many pixels. */
const END_PX = 48;
/** A scroll so soon after the person's move is the person's. */
const OWN_MS = 700;
const KEYS_UP = new Set(['ArrowUp', 'PageUp', 'Home']);
const KEYS = new Set([...KEYS_UP, 'ArrowDown', 'PageDown', 'End', ' ']);

/** Follows the end of a scroller. */
export interface Sticking {
  isStuck: Accessor<boolean>;
  /** Goes to the end, and follows it. */
  stick(): void;
  /** Goes away from the end, as a find or a link does. */
  release(): void;
  /** The drawn rows have changed: the end is kept in view if it is followed. */
  settle(): void;
  /** Listens to the scroller until the returned function is called. */
  attach(scroller: HTMLElement): () => void;
}

export function createSticking(): Sticking {
  const [isStuck, setStuck] = createSignal(true);
  let scroller: HTMLElement | undefined;
  let ownUntil = 0;
  let isTouching = false;

  const toEnd = () => { if (scroller !== undefined) scroller.scrollTop = scroller.scrollHeight; };
  const mine = () => { ownUntil = performance.now() + OWN_MS; };
  const distance = () => (scroller === undefined ? 0 : scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight);
  const onWheel = (event: WheelEvent) => {
    mine();
    if (event.deltaY < 0 && scroller !== undefined && scroller.scrollTop > 0) setStuck(false);
  };
  const onKey = (event: KeyboardEvent) => {
    if (!KEYS.has(event.key)) return;
    mine();
    if (KEYS_UP.has(event.key) && event.target === scroller) setStuck(false);
  };
  const onPress = (event: PointerEvent) => { if (event.target === scroller) mine(); };
  const onTouch = () => { isTouching = true; mine(); };
  const onLift = () => { isTouching = false; mine(); };
  const onScroll = () => {
    const isOwn = isTouching || performance.now() < ownUntil;
    if (!isOwn) return;
    // A fling goes on after the finger is lifted.
    mine();
    setStuck(distance() <= END_PX);
  };

  return {
    isStuck,
    stick() {
      setStuck(true);
      toEnd();
    },
    release: () => { setStuck(false); },
    settle: () => { if (isStuck() && !isTouching) toEnd(); },
    attach(element) {
      scroller = element;
      element.addEventListener('wheel', onWheel, { passive: true });
      element.addEventListener('keydown', onKey);
      element.addEventListener('pointerdown', onPress);
      element.addEventListener('touchstart', onTouch, { passive: true });
      element.addEventListener('touchend', onLift, { passive: true });
      element.addEventListener('touchcancel', onLift, { passive: true });
      element.addEventListener('scroll', onScroll, { passive: true });
      return () => {
        element.removeEventListener('wheel', onWheel);
        element.removeEventListener('keydown', onKey);
        element.removeEventListener('pointerdown', onPress);
        element.removeEventListener('touchstart', onTouch);
        element.removeEventListener('touchend', onLift);
        element.removeEventListener('touchcancel', onLift);
        element.removeEventListener('scroll', onScroll);
      };
    },
  };
}
