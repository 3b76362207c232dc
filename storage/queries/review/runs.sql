-- Return runs, newest first, of tenants as in the list of datasets. Filters that are NULL match all: one run, an
-- experiment, or a dataset. A run on a file matches by the file's path, its name, and its name without the suffix.
SELECT
    r.* EXCLUDE (looked_at, started_at, reported_at, completed_at, pinned_at, "state", state_reason),
    CASE
        WHEN r.state NOT IN ('RUNNING', 'CANCELLED') AND e.open > 0 THEN 'EVALUATING'
        ELSE r.state
    END AS status,
    coalesce(r.state_reason, e.waits) AS state_reason,
    coalesce(e.failed, []) AS failed_evaluations,
    r.pinned_at IS NOT NULL AS is_pinned,
    epoch_us(r.started_at) * 1000 AS started_at_ns,
    epoch_us(r.reported_at) * 1000 AS reported_at_ns,
    epoch_us(r.completed_at) * 1000 AS completed_at_ns
FROM run AS r
LEFT JOIN run_evaluation_state AS e ON e.run_id = r.run_id
WHERE ($tenant::VARCHAR IS NULL OR r.tenant IN ($tenant, ''))
    AND ($run_id::VARCHAR IS NULL OR r.run_id = $run_id)
    AND ($experiment_id::VARCHAR IS NULL OR r.experiment_id = $experiment_id)
    AND (
        $dataset::VARCHAR IS NULL
        OR r.dataset = $dataset
        OR r.dataset IS NULL
        AND $dataset IN (
            json_extract_string(r.metadata, '$.datasetFile'),
            parse_filename(json_extract_string(r.metadata, '$.datasetFile')),
            parse_filename(json_extract_string(r.metadata, '$.datasetFile'), true)
        )
    )
ORDER BY r.started_at DESC, r.run_id DESC
LIMIT $runs
OFFSET $skip;
