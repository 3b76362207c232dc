-- Return where to begin to look in the lake for rows of traces that are to move: the first of their spans that are here,
-- and the first of their parts that are here, or that came to the lake since the last time; NULL if there are none.
SELECT min(seq), min(write_number)
FROM (
    SELECT seq, NULL AS write_number
    FROM span
    ANTI JOIN trace_pin USING (tenant, trace_id)
    WHERE batch < $first_batch
    UNION ALL
    SELECT NULL, write_number
    FROM trace_part
    ANTI JOIN trace_pin USING (tenant, trace_id)
    WHERE batch < $first_batch
    UNION ALL
    SELECT NULL, write_number
    FROM lake_parts
);
