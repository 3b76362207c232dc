-- Return the first commit, and the first span, that came on a day or later, that is not matched, or whose traces are not
-- added up: what came before may move to the lake.
WITH later AS (
    SELECT min(batch) AS batch
    FROM (
        SELECT min(batch) AS batch FROM span WHERE received_at >= $day
        UNION ALL
        SELECT min(batch) FROM log_record WHERE received_at >= $day
        UNION ALL
        SELECT min(batch) FROM span WHERE seq > (SELECT seq FROM matching_state)
        UNION ALL
        SELECT batch + 1 FROM trace_state
        UNION ALL
        SELECT batch + 1 FROM ingest_state
    )
)
SELECT
    batch,
    coalesce((SELECT min(seq) FROM span WHERE batch >= later.batch), (SELECT max(seq) + 1 FROM span), 0)
FROM later;
