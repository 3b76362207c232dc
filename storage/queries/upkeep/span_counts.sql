-- Count the stored spans, and those of expired traces that are not pinned. Parts of a trace that continues count as
-- expired here.
SELECT
    coalesce(sum(span_count), 0)::BIGINT,
    coalesce(sum(span_count) FILTER (WHERE expires_at < make_timestamp($cutoff_us)), 0)::BIGINT,
    count(DISTINCT trace_key) FILTER (WHERE expires_at < make_timestamp($cutoff_us)),
    count(*) FILTER (WHERE expires_at < make_timestamp($cutoff_us))
FROM trace_part AS p
ANTI JOIN trace_pin AS k ON k.tenant = p.tenant AND k.trace_id = p.trace_id;
