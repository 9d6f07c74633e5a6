// Owns how the page looks to a person: theme, density, data saver. A choice holds at once.
import { For } from 'solid-js';
import { choices, choose, type Choices } from '../parts/choices';

const THEMES: { value: Choices['theme']; word: string }[] = [{ value: 'system', word: 'As the system' }, { value: 'light', word: 'Light' }, { value: 'dark', word: 'Dark' }];
const DENSITIES: { value: Choices['density']; word: string }[] = [{ value: 'comfortable', word: 'Comfortable' }, { value: 'compact', word: 'Compact' }];

/** The part "Look". */
export function Look() {
  return (
    <div class="choices">
      <fieldset><legend>Theme</legend><For each={THEMES}>{({ value, word }) => (
        <label><input type="radio" name="theme" checked={choices().theme === value} onChange={() => choose({ theme: value })} /> {word}</label>
      )}</For></fieldset>
      <fieldset><legend>Rows</legend><For each={DENSITIES}>{({ value, word }) => (
        <label><input type="radio" name="density" checked={choices().density === value} onChange={() => choose({ density: value })} /> {word}</label>
      )}</For></fieldset>
      <label><input type="checkbox" checked={choices().saver} onChange={(event) => choose({ saver: event.currentTarget.checked })} />
        {' '}Save data: text comes in larger pieces; images, and results over 16 kB, come on a tap</label>
    </div>
  );
}
