// Owns the menus for model, permission mode and effort in the header of a conversation.
import { Show, createSignal } from 'solid-js';
import { createAsked } from '../daemon/asked';
import { attempt } from '../lobby/acts';
import { rest } from '../daemon/daemon';
import type { Session } from '../daemon/types';
import { titleWith, useKeys } from '../parts/keys';
import { createLong } from '../parts/loading';
import { Menu, type MenuGroup } from '../parts/menu';
import { effortWord, modeWord, modelWord, modesFor } from '../parts/mode-words';

interface ModelInfo {
  value?: string | null; resolvedModel?: string | null; displayName?: string | null; description?: string | null;
  supportedEffortLevels?: (string | null)[] | null; supportsThinkingOff?: boolean | null; supportsAutoMode?: boolean | null;
}

/** The three menus, with their keys. */
export function HeaderMenus(props: { session: Session }) {
  const path = () => ({ path: { id: props.session.id } });
  const [opened, setOpened] = createSignal<'model' | 'mode' | 'effort' | null>(null);
  const [wanted, setWanted] = createSignal(false);
  const [models, { refetch }] = createAsked(
    () => (wanted() ? props.session.id : undefined),
    async (id) => (await rest.GET('/v1/sessions/{id}/models', { params: { path: { id } } }).catch(() => ({ items: [] }))).items as ModelInfo[],
  );
  const isRunning = () => ['idle', 'busy', 'waiting'].includes(props.session.state);
  const [settings, settingsAgain] = createAsked(
    () => (opened() === 'effort' && isRunning() && !props.session.simulated ? `${props.session.id} ${props.session.model ?? ''}` : undefined),
    async () => (await rest.GET('/v1/sessions/{id}/settings', { params: path() }).catch(() => null))?.response as { applied?: { effort?: string | null } | null } | null | undefined,
  );
  const open = (which: 'model' | 'mode' | 'effort') => (isOpen: boolean) => {
    setWanted(true);
    if (isOpen && models()?.length === 0) void refetch();
    setOpened(isOpen ? which : null);
  };
  const isLong = createLong(() => models.loading);
  const current = () => models()?.find((one) => one.resolvedModel === props.session.model && one.value !== 'default')
    ?? models()?.find((one) => one.value === props.session.model);
  const effort = () => settings()?.applied?.effort ?? null;
  const wakes = () => (props.session.state === 'parked' ? 'A change wakes it.' : isRunning() ? undefined : 'It does not run. Resume it to change this.');

  const modelGroups = (): MenuGroup[] => [{
    items: (models() ?? []).map((one) => ({
      word: one.displayName ?? one.value ?? '', about: one.description ?? undefined,
      isChosen: one === current(),
      run: () => void attempt(rest.PUT('/v1/sessions/{id}/model', { params: path(), body: { model: one.value === 'default' ? null : one.value ?? null } })),
    })),
  }];
  const modeGroups = (): MenuGroup[] => [{
    items: modesFor(props.session, current()?.supportsAutoMode !== false).map(({ mode, word, about }) => ({
      word, about, isChosen: mode === props.session.permission_mode,
      run: () => void attempt(rest.PUT('/v1/sessions/{id}/permission_mode', { params: path(), body: { mode } })),
    })),
  }];
  const setEffort = async (level: string | null) => {
    await attempt(rest.PATCH('/v1/sessions/{id}/settings', { params: path(), body: { settings: { effortLevel: level } } }));
    void settingsAgain.refetch();
  };
  const effortGroups = (): MenuGroup[] => {
    const levels = (current()?.supportedEffortLevels ?? ['low', 'medium', 'high', 'xhigh', 'max']).filter((one): one is string => one !== null);
    const think = (most: number | null) => void attempt(rest.PUT('/v1/sessions/{id}/thinking', { params: path(), body: { max_thinking_tokens: most } }));
    return [
      { name: 'Effort', items: levels.map((level) => ({ word: effortWord(level), isChosen: effort() === level, run: () => void setEffort(level) })) },
      { items: [{ word: 'The default effort', run: () => void setEffort(null) }] },
      { name: 'Thinking', items: [
        { word: 'As the model does by default', run: () => think(null) },
        ...(current()?.supportsThinkingOff === false ? [] : [{ word: 'None', run: () => think(0) }]),
      ] },
    ];
  };

  useKeys('Conversation', [
    { keys: 'M', word: 'Model', run: () => open('model')(true) },
    { keys: 'Alt m', word: 'Mode', inText: true, run: () => open('mode')(true) },
    { keys: 'Alt e', word: 'Effort', inText: true, run: () => open('effort')(true) },
  ]);
  return (
    <>
      <Menu label={`Model: ${modelWord(props.session.model)}`} title={titleWith('Model', 'Model', 'M')} open={opened() === 'model'} onOpen={open('model')} groups={modelGroups()}
        hint={isLong() ? 'Loading the models…' : models()?.length === 0 ? 'It says its models once it has started.' : wakes()}>
        <span class="one-line">{modelWord(props.session.model)}</span><span aria-hidden="true"> ▾</span>
      </Menu>
      <Menu label={`Mode: ${modeWord(props.session.permission_mode)}`} title={titleWith('Mode', 'Mode', 'Alt m')} open={opened() === 'mode'} onOpen={open('mode')} groups={modeGroups()} hint={wakes()}>
        <span class="one-line">{modeWord(props.session.permission_mode)}</span><span aria-hidden="true"> ▾</span>
      </Menu>
      <Menu label="Effort" title={titleWith('Effort', 'Effort', 'Alt e')} class="header-effort" open={opened() === 'effort'} onOpen={open('effort')} groups={effortGroups()} hint={wakes()}>
        <span class="one-line">Effort<Show when={effort()}>{(level) => <>: {effortWord(level()).toLowerCase()}</>}</Show></span><span aria-hidden="true"> ▾</span>
      </Menu>
    </>
  );
}
