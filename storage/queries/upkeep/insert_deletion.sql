-- Insert a deletion, with the commit after which it begins.
INSERT INTO deletion BY NAME
SELECT
    $deletion_id AS deletion_id,
    $tenant AS tenant,
    $trace_id AS trace_id,
    $project AS project,
    $session_id AS session_id,
    $user_id AS user_id,
    make_timestamp_ns($before_ns) AS before_time,
    $filters::VARCHAR[] AS filters,
    'deleting' AS "state",
    least($began_batch, batch) AS after_batch,
    batch AS until_batch,
    least($began_batch, batch) AS began_batch,
    0 AS traces,
    0 AS spans,
    make_timestamp($now_us) AS created_at,
    $created_by AS created_by
FROM ingest_state;
