-- Add targets to a queue that are not in it, up to its limit. Returns the added entries.
INSERT INTO review_entry BY NAME
WITH keyed AS (
    SELECT
        *,
        coalesce(trace_id || '/' || coalesce(span_id, ''), run_id || '/' || item_number) AS target_key
    FROM review_targets
),
drawn AS (
    SELECT
        * EXCLUDE (target_key),
        md5($queue_id || '/' || target || '/' || target_key) AS entry_id,
        row_number() OVER (ORDER BY place) AS number_here
    FROM keyed
    WHERE md5_number_lower('draw/' || $queue_id || '/' || target_key) < coalesce(probability, 1.0) * 18446744073709551616.0
    QUALIFY row_number() OVER (PARTITION BY target, target_key ORDER BY place) = 1
),
fresh AS (
    SELECT *, row_number() OVER (ORDER BY number_here) AS nth
    FROM drawn
    WHERE entry_id NOT IN (SELECT entry_id FROM review_entry WHERE queue_id = $queue_id)
)
SELECT
    $tenant AS tenant,
    $queue_id AS queue_id,
    entry_id,
    nth + (SELECT coalesce(max(number), 0) FROM review_entry) AS number,
    target,
    project,
    trace_id,
    span_id,
    run_id,
    item_number,
    reason,
    rule_id,
    probability,
    $added_by::VARCHAR AS added_by,
    make_timestamp($now_us::BIGINT) AS added_at
FROM fresh
WHERE nth <= $most - (SELECT count(*) FROM review_entry WHERE queue_id = $queue_id)
    AND EXISTS (SELECT 1 FROM review_queue WHERE queue_id = $queue_id)
RETURNING entry_id;
