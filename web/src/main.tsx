// Owns the start of the page.
import { render } from 'solid-js/web';
import { App } from './app';
import { scriptUrl } from './trusted-types';
import './look/tokens.css';
import './look/base.css';
import './look/shell.css';
import './look/conversation.css';
import './look/transcript.css';

// The router reads addresses as they are meant; one that was cut in the middle of a % leads nowhere.
try {
  decodeURI(location.pathname);
} catch {
  history.replaceState(null, '', '/');
}

const root = document.getElementById('app');
if (root !== null) render(() => <App />, root);

// Browsers have service workers in secure contexts only; without one the page works all the same.
if (import.meta.env.PROD && 'serviceWorker' in navigator) navigator.serviceWorker.register(scriptUrl('/sw.js')).catch(() => undefined);
