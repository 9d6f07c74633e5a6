-- Background tasks and sub-agents, as the CLI told of them. A task that its process left running has ended as `cut_short`.
CREATE TABLE tasks (
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    task_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    status TEXT NOT NULL,
    kind TEXT,
    agent TEXT,
    description TEXT,
    tool_use_id TEXT,
    parent_task_id TEXT,
    depth INTEGER,
    is_backgrounded INTEGER,
    summary TEXT,
    error TEXT,
    output_file TEXT,
    last_tool TEXT,
    total_tokens INTEGER,
    tool_uses INTEGER,
    duration_ms INTEGER,
    PRIMARY KEY (session_id, task_id)
) STRICT;

CREATE INDEX tasks_in_order ON tasks (session_id, first_seq);

-- The list of what the agent means to do, as its tools left it.
CREATE TABLE todos (
    session_id TEXT PRIMARY KEY NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    items TEXT NOT NULL
) STRICT;
