// Owns the addresses of the page, and which part draws each.
import { Navigate, Route, Router } from '@solidjs/router';
import { Show, lazy, type ParentProps } from 'solid-js';
import { loginKey } from './daemon/login';
import { Login, OpenLink } from './shell/login';
import { Shell } from './shell/shell';
import { SessionsPage } from './sessions/page';
import { ConversationPage } from './conversation/page';

const NeedsPage = lazy(() => import('./decision/page'));
const NewSession = lazy(() => import('./sessions/new'));
const WatchPage = lazy(() => import('./watch/page'));
const UsagePage = lazy(() => import('./usage/page'));
const HealthPage = lazy(() => import('./health/page'));
const SettingsPage = lazy(() => import('./settings/page'));

/** Pages that need a login; without one the page asks for it, and the address stays. */
function SignedIn(props: ParentProps) {
  return <Show when={loginKey() !== null} fallback={<Login />}><Shell>{props.children}</Shell></Show>;
}

/** The whole page. */
export function App() {
  return (
    <Router>
      <Route path="/open" component={OpenLink} />
      <Route path="/" component={SignedIn}>
        <Route path="/login" component={() => <Navigate href="/" />} />
        <Route path="/" component={SessionsPage} />
        <Route path="/new" component={() => <><SessionsPage /><NewSession /></>} />
        <Route path="/needs/:approval?" component={NeedsPage} />
        <Route path="/s/:id/*rest" component={ConversationPage} />
        <Route path="/watch" component={WatchPage} />
        <Route path="/usage" component={UsagePage} />
        <Route path="/health" component={HealthPage} />
        <Route path="/settings/:part?" component={SettingsPage} />
        <Route path="*" component={() => <p class="page">There is no such page. <a href="/">All sessions</a></p>} />
      </Route>
    </Router>
  );
}
