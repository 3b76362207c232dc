-- Delete judge requests from before an instant, earliest first; never the last one, because numbers continue from it.
DELETE FROM judge_call
WHERE call_id IN (
    SELECT call_id
    FROM judge_call
    WHERE started_at < make_timestamp($before_us) AND call_id < (SELECT max(call_id) FROM judge_call)
    ORDER BY call_id
    LIMIT $rows
);
