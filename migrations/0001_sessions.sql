-- Times are microseconds since the Unix epoch, money is billionths of a US dollar, ids are UUIDs in lower-case text.
-- NULL in a cost or token column means that the CLI did not say.

CREATE TABLE sessions (
    id TEXT PRIMARY KEY NOT NULL,
    cwd TEXT NOT NULL,
    title TEXT,
    tag TEXT,
    options TEXT NOT NULL,
    parent_id TEXT REFERENCES sessions (id) ON DELETE SET NULL,
    forked_at TEXT,
    state TEXT NOT NULL,
    state_reason TEXT,
    cli_session_id TEXT NOT NULL,
    run_id TEXT,
    run_seq INTEGER NOT NULL DEFAULT 0,
    cli_version TEXT,
    model TEXT,
    permission_mode TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    projected_seq INTEGER NOT NULL DEFAULT 0,
    turns INTEGER NOT NULL DEFAULT 0,
    cost_nanos INTEGER NOT NULL DEFAULT 0,
    unknown_cost_turns INTEGER NOT NULL DEFAULT 0,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cache_read_tokens INTEGER NOT NULL DEFAULT 0,
    cache_creation_tokens INTEGER NOT NULL DEFAULT 0,
    last_prompt TEXT
) STRICT;

CREATE INDEX sessions_by_activity ON sessions (updated_at, id);
CREATE INDEX sessions_by_state ON sessions (state, updated_at, id);
CREATE INDEX sessions_by_cwd ON sessions (cwd, updated_at, id);
CREATE INDEX sessions_by_tag ON sessions (tag, updated_at, id) WHERE tag IS NOT NULL;
CREATE INDEX sessions_by_parent ON sessions (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX sessions_by_cli_session ON sessions (cli_session_id, updated_at);

CREATE TABLE session_labels (
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (session_id, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX session_labels_by_value ON session_labels (key, value, session_id);

-- Which ids the CLI gave a conversation; position counts from 1. The same id may come back.
CREATE TABLE cli_sessions (
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    cli_session_id TEXT NOT NULL,
    from_at INTEGER NOT NULL,
    PRIMARY KEY (session_id, position)
) STRICT, WITHOUT ROWID;

CREATE INDEX cli_sessions_by_id ON cli_sessions (cli_session_id, from_at);

-- Running totals belong to a conversation of the CLI, not to a session: a fork starts from its parent's.
CREATE TABLE cli_totals (
    cli_session_id TEXT PRIMARY KEY NOT NULL,
    cost_nanos INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE cli_total_models (
    cli_session_id TEXT NOT NULL REFERENCES cli_totals (cli_session_id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    model TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    cache_creation_tokens INTEGER NOT NULL,
    cost_nanos INTEGER,
    PRIMARY KEY (cli_session_id, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
    id TEXT PRIMARY KEY NOT NULL,
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    mode TEXT NOT NULL,
    started_seq INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ready_at INTEGER,
    cli_version TEXT,
    exited_at INTEGER,
    exit_code INTEGER,
    exit_signal INTEGER,
    exit_intent TEXT,
    exit_killed INTEGER,
    exit_stderr_tail TEXT,
    exit_spawn_error TEXT,
    exit_unwritten_lines INTEGER
) STRICT;

CREATE INDEX runs_by_session ON runs (session_id, started_seq);

CREATE TABLE turns (
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    prompts TEXT NOT NULL, -- JSON array of prompt UUIDs
    origin TEXT,
    subtype TEXT NOT NULL,
    is_error INTEGER NOT NULL,
    terminal_reason TEXT,
    num_turns INTEGER,
    duration_ms INTEGER,
    duration_api_ms INTEGER,
    cost_nanos INTEGER,
    input_tokens INTEGER,
    output_tokens INTEGER,
    cache_read_tokens INTEGER,
    cache_creation_tokens INTEGER,
    PRIMARY KEY (session_id, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX turns_by_end ON turns (ended_at);

CREATE TABLE turn_models (
    session_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    position INTEGER NOT NULL,
    model TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    cache_creation_tokens INTEGER NOT NULL,
    cost_nanos INTEGER,
    PRIMARY KEY (session_id, number, position),
    FOREIGN KEY (session_id, number) REFERENCES turns (session_id, number) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE prompts (
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    uuid TEXT NOT NULL,
    state TEXT NOT NULL,
    text TEXT, -- the start only
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    state_at INTEGER NOT NULL,
    PRIMARY KEY (session_id, uuid)
) STRICT, WITHOUT ROWID;

CREATE INDEX prompts_by_seq ON prompts (session_id, seq);

CREATE TABLE approvals (
    id TEXT PRIMARY KEY NOT NULL,
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    run_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    tool_name TEXT NOT NULL,
    request TEXT NOT NULL, -- the CLI's JSON, byte for byte
    requested_at INTEGER NOT NULL,
    state TEXT NOT NULL,
    resolved_by TEXT,
    response TEXT, -- the answer's JSON, byte for byte
    resolved_at INTEGER
) STRICT;

CREATE INDEX approvals_by_session ON approvals (session_id, requested_at, id);
CREATE INDEX approvals_by_state ON approvals (state, requested_at, id);
CREATE INDEX approvals_by_time ON approvals (requested_at, id);

-- One row that a health probe writes, to learn whether writes commit.
CREATE TABLE probe (
    id INTEGER PRIMARY KEY NOT NULL CHECK (id = 1),
    writes INTEGER NOT NULL
) STRICT;

INSERT INTO probe (id, writes) VALUES (1, 0);
