-- Return each reviewer's last answer to a question, optionally of one queue only: one row for each counted vote.
WITH last AS (
    SELECT
        target,
        trace_id,
        span_id,
        run_id,
        item_number,
        author,
        arg_max(label, number) AS label,
        arg_max(score, number) AS score,
        epoch_us(arg_max(created_at, number)) AS at_us
    FROM annotation
    WHERE tenant = $tenant AND name = $name AND source = 'person' AND target IN ('trace', 'span', 'run_item')
    GROUP BY target, trace_id, span_id, run_id, item_number, author
    HAVING NOT arg_max(withdrawn, number)
)
SELECT l.*
FROM last AS l
WHERE ($from_us::BIGINT IS NULL OR l.at_us >= $from_us::BIGINT)
    AND (l.label IS NOT NULL OR l.score IS NOT NULL)
    AND lower(coalesce(l.label, '')) <> 'unsure'
    AND (
        $queue_id::VARCHAR IS NULL
        OR EXISTS (
            SELECT 1
            FROM review_entry AS e
            WHERE e.queue_id = $queue_id
                AND e.target = l.target
                AND e.trace_id IS NOT DISTINCT FROM l.trace_id
                AND e.span_id IS NOT DISTINCT FROM l.span_id
                AND e.run_id IS NOT DISTINCT FROM l.run_id
                AND e.item_number IS NOT DISTINCT FROM l.item_number
        )
    )
ORDER BY l.at_us DESC, l.author, l.trace_id, l.span_id, l.item_number
LIMIT $rows;
