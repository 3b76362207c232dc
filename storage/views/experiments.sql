-- Experiments, one row each.
CREATE OR REPLACE VIEW experiments AS
SELECT
    e.tenant,
    e.project,
    e.experiment_id,
    e.name,
    e.created_at,
    count(r.run_id) AS runs,
    max(r.started_at) AS last_started_at
FROM experiment AS e
LEFT JOIN run AS r ON r.experiment_id = e.experiment_id
GROUP BY ALL;
