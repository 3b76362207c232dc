-- Return sessions that have been quiet long enough for rules that have not decided on them, quietest first. Their
-- traces must be aggregated first, which determines the traces of a session.
SELECT
    tenant,
    session_id,
    min(last_seq) AS first_part,
    max(last_seq) AS last_part,
    count(*) AS parts,
    count(DISTINCT trace_id) AS new_traces,
    bool_or(was_settled) OR max(rested_us) >= $settle_us::BIGINT AS was_decided
FROM session_open
GROUP BY tenant, session_id
HAVING epoch_us(max(last_at)) + $settle_us::BIGINT <= $now_us::BIGINT
    AND min(rested_us) < $settle_us::BIGINT
    AND (max(last_seq) >> 20) <= (SELECT batch FROM trace_state)
ORDER BY max(last_at)
LIMIT $sessions;
