-- Return parts of traces that expired and arrived after a commit, earliest first.
SELECT tenant, trace_id, trace_key, span_count, batch
FROM trace_part
WHERE expires_at < make_timestamp($cutoff_us) AND batch > $after
ORDER BY batch
LIMIT $parts;
