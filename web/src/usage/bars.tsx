// Owns the bars of the usage page: each takes the focus, says its figures, and filters by Enter, Space or a press.
import { scaleBand, scaleLinear } from 'd3-scale';
import { For } from 'solid-js';

/** A bar. */
export interface Bar { key: string; label: string; value: number; says: string; isChosen: boolean }

/** The picture's width: a phone has a narrower one, so that its letters stay readable. */
const WIDTH = matchMedia('(max-width: 600px)').matches ? 340 : 720;
const HEIGHT = 180;
const LEFT = 56;
const BELOW = 24;

/** Bars of money, from the left. */
export function Bars(props: { bars: Bar[]; title: string; onChoose: (key: string) => void }) {
  const x = () => scaleBand().domain(props.bars.map((bar) => bar.key)).range([LEFT, WIDTH]).padding(0.2);
  const y = () => scaleLinear().domain([0, Math.max(0.01, ...props.bars.map((bar) => bar.value))]).nice(4).range([HEIGHT - BELOW, 8]);
  const ticks = () => y().ticks(4);
  const dollars = () => y().tickFormat(4);
  /** Labels that would touch are left out. */
  const every = () => Math.ceil(props.bars.length / (WIDTH / 68));
  return (
    <svg class="bars" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="group" aria-label={props.title}>
      <For each={ticks()}>{(tick) => (
        <g aria-hidden="true">
          <line class="bars-line" x1={LEFT} x2={WIDTH} y1={y()(tick)} y2={y()(tick)} />
          <text class="bars-text" x={LEFT - 8} y={y()(tick)} text-anchor="end" dominant-baseline="middle">${dollars()(tick)}</text>
        </g>
      )}</For>
      <For each={props.bars}>{(bar, i) => (
        <>
          <rect class="bar" classList={{ 'is-chosen': bar.isChosen }} role="button" tabindex="0" aria-pressed={bar.isChosen} aria-label={bar.says} x={x()(bar.key)} width={x().bandwidth()}
            y={Math.min(y()(bar.value), HEIGHT - BELOW - 1)} height={Math.max(1, HEIGHT - BELOW - y()(bar.value))}
            onClick={() => props.onChoose(bar.key)}
            onKeyDown={(event) => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); props.onChoose(bar.key); } }}>
            <title>{bar.says}</title>
          </rect>
          {i() % every() === 0 && <text class="bars-text" aria-hidden="true" x={(x()(bar.key) ?? 0) + x().bandwidth() / 2} y={HEIGHT - 6} text-anchor="middle">{bar.label}</text>}
        </>
      )}</For>
    </svg>
  );
}
