// Owns the line above the prompt box: how the session is when that matters, with a button for each way on.
import { useNavigate } from '@solidjs/router';
import { For, Show, createMemo } from 'solid-js';
import { createAsked } from '../daemon/asked';
import { BUSY_WORDS, fork, interrupt, isDoing, leaveIt, resume } from '../lobby/acts';
import { rest } from '../daemon/daemon';
import { canAct } from '../daemon/role';
import type { SessionSummary } from '../daemon/types';
import { BusyButton } from '../parts/busy';
import { now } from '../parts/time';
import { SafeText } from '../text/safe';
import { ACT_WORDS, noticeOf, type NoticeAct } from './notice-words';

const MARKS = { failed: '▲', need: '◆', quiet: '' } as const;

/** The ways that take a while, as requests. */
const SLOW: Partial<Record<NoticeAct, keyof typeof BUSY_WORDS>> = { resume: 'resume', fresh_start: 'resume', interrupt: 'interrupt', fork: 'fork' };

/** The line. Nothing is drawn while there is nothing to say. */
export function SessionNotice(props: { session: SessionSummary }) {
  const navigate = useNavigate();
  const [waysOut] = createAsked(
    () => (props.session.state === 'failed' ? props.session.id : undefined),
    async (id) => (await rest.GET('/v1/sessions/{id}', { params: { path: { id } } })).ways_out.filter((way): way is NoticeAct & typeof way => way in ACT_WORDS),
  );
  const notice = createMemo(() => noticeOf(props.session, now(), waysOut()));
  const run = async (act: NoticeAct) => {
    const { id } = props.session;
    if (act === 'resume') await resume(id);
    else if (act === 'fresh_start') await resume(id, true);
    else if (act === 'interrupt') await interrupt(id);
    else if (act === 'fork') {
      const made = await fork(id);
      if (made !== undefined) navigate(`/s/${made.id}`);
    } else await leaveIt(id);
  };
  return (
    <div role="status" class="session-notice-place">
      <Show when={notice()}>{(said) => (
        <div class={`session-notice is-${said().tone}`}>
          <span><Show when={MARKS[said().tone]}><span aria-hidden="true">{MARKS[said().tone]} </span></Show><SafeText text={said().text} /></span>
          <Show when={canAct() && said().acts.length > 0}>
            <span class="session-notice-acts">
              <For each={said().acts}>{(act) => <BusyButton busyWord={SLOW[act] === undefined ? ACT_WORDS[act] : BUSY_WORDS[SLOW[act]]} isBusy={SLOW[act] !== undefined && isDoing(SLOW[act], props.session.id)} run={() => run(act)}>{ACT_WORDS[act]}</BusyButton>}</For>
            </span>
          </Show>
        </div>
      )}</Show>
    </div>
  );
}
