-- How many spans are stored, and of how many the traces have expired and are not kept; pieces of a trace that goes on
-- count as expired here.
SELECT
    coalesce(sum(span_count), 0)::BIGINT,
    coalesce(sum(span_count) FILTER (WHERE expires_at < make_timestamp($cutoff_us)), 0)::BIGINT,
    count(DISTINCT trace_key) FILTER (WHERE expires_at < make_timestamp($cutoff_us)),
    count(*) FILTER (WHERE expires_at < make_timestamp($cutoff_us))
FROM trace_part AS p
ANTI JOIN trace_pin AS k ON k.tenant = p.tenant AND k.trace_id = p.trace_id;
