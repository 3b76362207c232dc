-- Return the parts of traces that came after a commit and before another one, earliest first.
SELECT tenant, trace_id, trace_key, span_count, batch
FROM trace_part
WHERE batch > $after AND batch < $first_batch
ORDER BY batch
LIMIT $parts;
