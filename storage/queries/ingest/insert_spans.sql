-- Store the spans of a batch under the number of the commit. The limit keeps the rows in one thread, and in one row
-- group.
INSERT INTO span BY NAME
SELECT
    *,
    CASE
        WHEN epoch_ns(end_time) <> 0 AND epoch_ns(start_time) <> 0
            THEN (epoch_ns(end_time)::HUGEINT - epoch_ns(start_time)) / 1e6
    END AS duration_ms,
    $batch::BIGINT AS batch
FROM incoming_spans
LIMIT $rows;
