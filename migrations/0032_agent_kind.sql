-- The kind of agent of a session, `real` or `simulated`, once it has run; and which turns were simulated.
ALTER TABLE sessions ADD COLUMN agent TEXT;
ALTER TABLE turns ADD COLUMN simulated INTEGER NOT NULL DEFAULT 0;

UPDATE sessions SET agent = CASE cli_version WHEN '0.0.0-sim' THEN 'simulated' ELSE 'real' END
WHERE cli_version IS NOT NULL;

-- The costs that simulated turns seemed to have leave the sums.
UPDATE turns SET simulated = 1, cost_nanos = 0
WHERE run_id IN (SELECT id FROM runs WHERE cli_version = '0.0.0-sim');
UPDATE turn_models SET cost_nanos = 0
WHERE EXISTS (SELECT 1 FROM turns t WHERE t.session_id = turn_models.session_id AND t.number = turn_models.number AND t.simulated);
UPDATE sessions SET
    cost_nanos = (SELECT ifnull(sum(t.cost_nanos), 0) FROM turns t WHERE t.session_id = sessions.id),
    unknown_cost_turns = (SELECT count(*) - count(t.cost_nanos) FROM turns t WHERE t.session_id = sessions.id)
WHERE id IN (SELECT session_id FROM turns WHERE simulated);
