-- Insert a run of an experiment, unless it has one with this key.
INSERT INTO run BY NAME
SELECT
    e.tenant,
    $run_id AS run_id,
    e.experiment_id,
    e.project,
    e.name AS experiment,
    $run_key AS run_key,
    $name AS "name",
    $description AS description,
    $metadata AS metadata,
    $git_sha AS git_sha,
    $git_branch AS git_branch,
    $triggered_by AS triggered_by,
    $dataset_id AS dataset_id,
    $dataset AS dataset,
    $dataset_version AS dataset_version,
    $trials AS trials,
    'RUNNING' AS "state",
    $idle_s AS idle_s,
    $created_by AS created_by,
    make_timestamp($now_us::BIGINT) AS started_at,
    make_timestamp($now_us::BIGINT) AS reported_at
FROM experiment AS e
WHERE e.tenant = $tenant
    AND e.project = $project
    AND e.name = $experiment
    AND NOT EXISTS (
        SELECT 1 FROM run AS r WHERE r.experiment_id = e.experiment_id AND r.run_key = $run_key
    );
