-- Return experiments by name, of tenants as in `datasets`; optionally one of them, or those of a project.
SELECT
    e.* EXCLUDE (created_at),
    epoch_us(e.created_at) * 1000 AS created_at_ns
FROM experiment AS e
WHERE ($tenant::VARCHAR IS NULL OR e.tenant IN ($tenant, ''))
    AND ($experiment_id::VARCHAR IS NULL OR e.experiment_id = $experiment_id)
    AND ($project::VARCHAR IS NULL OR e.project = $project)
ORDER BY e.name, e.tenant;
