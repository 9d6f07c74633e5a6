-- The parts of the tokens written to the cache by how long they are kept there, web searches, and what the CLI says of a model and a service.
ALTER TABLE sessions ADD COLUMN cache_creation_5m_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN cache_creation_1h_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN web_searches INTEGER NOT NULL DEFAULT 0;
ALTER TABLE turns ADD COLUMN cache_creation_5m_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE turns ADD COLUMN cache_creation_1h_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE turns ADD COLUMN web_searches INTEGER NOT NULL DEFAULT 0;
ALTER TABLE turns ADD COLUMN service_tier TEXT;
ALTER TABLE turn_models ADD COLUMN cache_creation_5m_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE turn_models ADD COLUMN cache_creation_1h_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE turn_models ADD COLUMN web_searches INTEGER NOT NULL DEFAULT 0;
ALTER TABLE turn_models ADD COLUMN context_window INTEGER;
ALTER TABLE turn_models ADD COLUMN max_output_tokens INTEGER;
ALTER TABLE cli_total_models ADD COLUMN cache_creation_5m_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE cli_total_models ADD COLUMN cache_creation_1h_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE cli_total_models ADD COLUMN web_searches INTEGER NOT NULL DEFAULT 0;
ALTER TABLE cli_total_models ADD COLUMN context_window INTEGER;
ALTER TABLE cli_total_models ADD COLUMN max_output_tokens INTEGER;
