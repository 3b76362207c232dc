-- Delete open sessions that no rule waits for any longer.
DELETE FROM session_open
WHERE (tenant, session_id) IN (
    SELECT (tenant, session_id) FROM session_open GROUP BY tenant, session_id HAVING min(rested_us) >= $longest_us
);
