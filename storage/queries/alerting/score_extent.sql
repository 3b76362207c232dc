-- Return the annotation and commit up to which all scores were checked, the last ones, the last ones before an
-- instant, and whether scores arrived as events since.
SELECT
    s.number AS looked_at,
    a.last,
    a.settled,
    s.batch AS looked_batch,
    i.batch AS last_batch,
    greatest(s.batch, coalesce(l.settled_batch, s.batch)) AS settled_batch,
    coalesce(l.came, false) AS came
FROM score_state AS s
CROSS JOIN ingest_state AS i
CROSS JOIN (
    SELECT
        coalesce(max(number), 0) AS last,
        coalesce(max(number) FILTER (WHERE created_at < make_timestamp($before_us::BIGINT)), 0) AS settled
    FROM annotation
) AS a
CROSS JOIN (
    SELECT
        max(batch) FILTER (WHERE received_at < make_timestamp($before_us::BIGINT)) AS settled_batch,
        bool_or(event_name = 'gen_ai.evaluation.result') AS came
    FROM log_record
    WHERE batch > (SELECT batch FROM score_state)
) AS l;
