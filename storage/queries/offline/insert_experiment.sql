-- Insert an experiment, unless its project has one with that name.
INSERT INTO experiment BY NAME
SELECT
    $tenant AS tenant,
    $experiment_id AS experiment_id,
    $project AS project,
    $experiment AS "name",
    make_timestamp($now_us::BIGINT) AS created_at
WHERE NOT EXISTS (
    SELECT 1 FROM experiment WHERE tenant = $tenant AND project = $project AND "name" = $experiment
);
