-- Record that a deletion has no rows left, and erase the names in it. Its state is "done" if nothing must be erased from
-- the file or the lake: neither rows nor names, nor rows that it selects and an earlier deletion took.
UPDATE deletion SET
    "state" = CASE WHEN n.is_done THEN 'done' ELSE 'erasing' END,
    trace_id = NULL,
    session_id = NULL,
    user_id = NULL,
    rows_gone_at = make_timestamp($now_us),
    finished_at = CASE WHEN n.is_done THEN make_timestamp($now_us) END
FROM (
    SELECT
        d.deletion_id,
        d.spans = 0 AND d.traces = 0 AND coalesce(d.trace_id, d.session_id, d.user_id) IS NULL
        AND NOT EXISTS (SELECT 1 FROM lake_removal)
        AND NOT EXISTS (
            SELECT 1 FROM deletion AS o
            WHERE o.deletion_id <> d.deletion_id AND o."state" <> 'done' AND (o.spans > 0 OR o.traces > 0)
        ) AS is_done
    FROM deletion AS d
) AS n
WHERE deletion.deletion_id = $deletion_id AND n.deletion_id = deletion.deletion_id;
