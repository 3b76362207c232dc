-- Return the latest runs on versions of a dataset, newest first, of a tenant, plus shared ones (tenant ''). NULL
-- returns those of all tenants.
SELECT
    r.run_id,
    r.experiment_id,
    r.project,
    r.experiment,
    r.dataset_version,
    r.state,
    epoch_us(r.started_at) * 1000 AS started_at_ns
FROM run AS r
WHERE r.dataset_id = $dataset_id
    AND ($tenant::VARCHAR IS NULL OR r.tenant IN ($tenant, ''))
ORDER BY r.started_at DESC, r.run_id DESC
LIMIT $runs;
