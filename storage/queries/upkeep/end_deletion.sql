-- Record that a deletion has no rows left, and erase the names in it. Its state is "done" if nothing must be erased
-- from the file: neither rows nor names.
UPDATE deletion SET
    "state" = CASE WHEN spans = 0 AND traces = 0 AND coalesce(trace_id, session_id, user_id) IS NULL THEN 'done' ELSE 'erasing' END,
    trace_id = NULL,
    session_id = NULL,
    user_id = NULL,
    rows_gone_at = make_timestamp($now_us),
    finished_at = CASE
        WHEN spans = 0 AND traces = 0 AND coalesce(trace_id, session_id, user_id) IS NULL THEN make_timestamp($now_us)
    END
WHERE deletion_id = $deletion_id;
