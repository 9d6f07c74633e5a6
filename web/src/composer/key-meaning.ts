// Owns which work a key in the prompt box means.

/** The work of a key in the box. `null`: the key writes, or does what the browser does with it. */
export type KeyMeaning = 'send' | 'send-now' | 'leave' | 'earlier' | 'later' | 'search' | null;

/** The members of a keyboard event that count. */
export type Pressed = Pick<KeyboardEvent, 'key' | 'shiftKey' | 'ctrlKey' | 'metaKey' | 'altKey' | 'isComposing' | 'keyCode'>;

/** How the box is when the key comes. */
export interface BoxState {
  /** The person has a finger and no fine pointer: Return is a new line then. */
  isTouch: boolean;
  /** The text is empty, or is one of the history that nobody has changed. */
  mayGoBack: boolean;
}

/** The meaning of a key. Keys of an input method never mean anything. */
export function keyMeaning(pressed: Pressed, box: BoxState): KeyMeaning {
  if (pressed.isComposing || pressed.keyCode === 229) return null;
  const isControl = pressed.ctrlKey || pressed.metaKey;
  switch (pressed.key) {
    case 'Enter':
      if (pressed.altKey) return null;
      if (isControl) return pressed.shiftKey ? 'send-now' : 'send';
      return pressed.shiftKey || box.isTouch ? null : 'send';
    case 'Escape': return 'leave';
    case 'ArrowUp': return box.mayGoBack && !isControl && !pressed.altKey && !pressed.shiftKey ? 'earlier' : null;
    case 'ArrowDown': return box.mayGoBack && !isControl && !pressed.altKey && !pressed.shiftKey ? 'later' : null;
    case 'r': case 'R': case '®': return pressed.altKey && !isControl ? 'search' : null;
    default: return null;
  }
}
