// Owns the start of the page.
import { render } from 'solid-js/web';
import { App } from './app';
import './look/tokens.css';
import './look/base.css';
import './look/shell.css';

const root = document.getElementById('app');
if (root !== null) render(() => <App />, root);
