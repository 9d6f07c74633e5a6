// Owns the head of the list: search, filters, and New.
import { A } from '@solidjs/router';
import { For, Show, createMemo, createSignal } from 'solid-js';
import Plus from 'lucide-solid/icons/plus';
import ListFilter from 'lucide-solid/icons/list-filter';
import { sessions } from '../lobby/lobby';
import { canAct } from '../daemon/role';
import { spelledOut } from '../text/hostile';
import { NO_FILTER, type Filter } from './filter';
import { GROUPS, type GroupName } from '../lobby/order';
import { filter, useFilter } from './view';
import { place } from '../lobby/words';

const distinct = (all: (string | null | undefined)[]): string[] => [...new Set(all.filter((one): one is string => one != null && one !== ''))].sort();

/** The head of the list. */
export function ListHead(props: { field: (element: HTMLInputElement) => void; onLeave: () => void }) {
  const change = useFilter();
  const [isOpen, setOpen] = createSignal(false);
  const narrowed = () => [filter().state, filter().project, filter().tag].filter((one) => one !== '').length;
  const projects = createMemo(() => (isOpen() ? distinct(sessions().map((one) => one.cwd)) : []));
  const tags = createMemo(() => (isOpen() ? distinct(sessions().map((one) => one.tag)) : []));
  return (
    <search class="list-head">
      <div class="list-tools">
        <input type="search" class="list-search" placeholder="Filter" aria-label="Filter sessions" value={filter().q} ref={props.field}
          onInput={(event) => change({ q: event.currentTarget.value })}
          onKeyDown={(event) => { if (event.key === 'Escape' || event.key === 'ArrowDown' || event.key === 'Enter') { event.preventDefault(); if (event.key === 'Escape') change({ q: '' }); props.onLeave(); } }} />
        <button type="button" class="plain" aria-expanded={isOpen()} aria-controls="list-filters" aria-label={narrowed() > 0 ? `Filters, ${narrowed()} set` : 'Filters'} onClick={() => setOpen(!isOpen())}>
          <ListFilter size={16} stroke-width={1.75} aria-hidden="true" /><Show when={narrowed() > 0}><span class="figures">{narrowed()}</span></Show>
        </button>
        <Show when={canAct()}><A class="button" href="/new"><Plus size={16} stroke-width={1.75} aria-hidden="true" /> New</A></Show>
      </div>
      <div id="list-filters" class="list-filters" hidden={!isOpen() && narrowed() === 0}>
        <label>State <select value={filter().state} onChange={(event) => change({ state: event.currentTarget.value as GroupName | '' })}>
          <option value="">Any</option><For each={GROUPS}>{({ name, word }) => <option value={name} selected={filter().state === name}>{word}</option>}</For>
        </select></label>
        <Choice word="Project" value={filter().project} all={projects()} shown={place} onChoose={(project) => change({ project })} />
        <Choice word="Tag" value={filter().tag} all={tags()} shown={(one) => one} onChoose={(tag) => change({ tag })} />
        <Show when={narrowed() > 0}><button type="button" onClick={() => change({ ...NO_FILTER, q: filter().q } satisfies Filter)}>Clear filters</button></Show>
      </div>
    </search>
  );
}

function Choice(props: { word: string; value: string; all: string[]; shown: (one: string) => string; onChoose: (one: string) => void }) {
  const all = () => (props.value === '' || props.all.includes(props.value) ? props.all : [props.value, ...props.all]);
  return (
    <label>{props.word} <select value={props.value} onChange={(event) => props.onChoose(event.currentTarget.value)}>
      <option value="">Any</option><For each={all()}>{(one) => <option value={one} selected={one === props.value}>{spelledOut(props.shown(one))}</option>}</For>
    </select></label>
  );
}
