-- Return the expiry, to the minute, up to which traces must leave so that at least a number of spans leave.
SELECT epoch_us(min(minute + INTERVAL 1 MINUTE))
FROM (
    SELECT minute, sum(spans) OVER (ORDER BY minute) AS spans
    FROM (
        SELECT time_bucket(INTERVAL 1 MINUTE, expires_at) AS minute, sum(span_count) AS spans
        FROM trace_part AS p
        ANTI JOIN trace_pin AS k ON k.tenant = p.tenant AND k.trace_id = p.trace_id
        GROUP BY minute
    )
)
WHERE spans >= $spans;
