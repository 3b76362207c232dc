-- Return traces that have settled at a time. Recent traces without a root are returned if they would have settled with
-- one and were not checked since. Those settled first come first, then those idle for longest. Each row has the time at
-- which the next trace is due; if no trace is due, one row without a trace has it.
WITH arrivals AS (
    SELECT
        tenant,
        trace_id,
        epoch_us(min(first_at)) AS first_us,
        epoch_us(max(last_at)) AS last_us,
        bool_or(root_ended) AS root_ended,
        sum(span_count)::BIGINT AS span_count,
        min(last_seq) AS first_part,
        max(last_seq) AS last_part,
        count(*) AS parts
    FROM trace_open
    GROUP BY tenant, trace_id
), settling AS (
    SELECT
        *,
        last_us + least($after_root_us::BIGINT, $quiet_us::BIGINT) AS settles_with_root_us,
        least(
            CASE WHEN root_ended THEN settles_with_root_us ELSE last_us + $quiet_us::BIGINT END,
            first_us + $longest_us::BIGINT
        ) AS settles_us,
        settles_us <= $now_us::BIGINT AS has_settled
    FROM arrivals
), due AS (
    SELECT *
    FROM settling
    WHERE has_settled
        OR (NOT root_ended AND settles_with_root_us > $looked_us::BIGINT AND settles_with_root_us <= $now_us::BIGINT)
    ORDER BY has_settled DESC, settles_with_root_us
    LIMIT $traces
), others AS (
    SELECT
        least(
            min(settles_us) FILTER (settles_us > $now_us::BIGINT),
            min(settles_with_root_us) FILTER (NOT root_ended AND settles_with_root_us > $now_us::BIGINT)
        ) AS next_us
    FROM settling
)
SELECT
    d.tenant,
    d.trace_id,
    d.last_us,
    ('0x' || d.trace_id[17:])::UBIGINT AS trace_key,
    d.span_count,
    d.first_part,
    d.last_part,
    d.parts,
    d.settles_with_root_us,
    d.has_settled,
    o.next_us
FROM others AS o
LEFT JOIN due AS d ON true
ORDER BY d.has_settled DESC, d.settles_with_root_us;
