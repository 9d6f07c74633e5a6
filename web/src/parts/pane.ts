// Owns which half of a page that is split has the keys: the one that a person was in last.
import { createContext, type Accessor } from 'solid-js';

/** A half of the page. */
export interface Pane { isActive: Accessor<boolean> }

/** The half that a part stands in; none where the page is whole. */
export const PaneContext = createContext<Pane>();
