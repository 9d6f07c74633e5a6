// Owns with which options the page makes sessions: what its conversation can show, and what people choose.
import type { LaunchOptions } from '../daemon/types';

/** The options of every session that this page makes: text as it comes, files that can be rewound, sub-agents, tasks one by one. */
export const PAGE_OPTIONS: LaunchOptions = {
  include_partial_messages: true, enable_file_checkpointing: true, forward_subagent_text: true, per_task_stop_affordance: true,
};
