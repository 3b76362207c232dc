-- Return annotations of a trace, a span, a session or a run item, latest first. A filter that is NULL matches all.
WITH annotation AS MATERIALIZED ( -- what may replace each other, so that the view looks at no more
    SELECT *
    FROM annotation AS a
    WHERE ($trace_id::VARCHAR IS NULL OR a.trace_id = $trace_id OR a.session_id IN (
        SELECT session_id FROM annotation WHERE trace_id = $trace_id
    ))
        AND ($session_id::VARCHAR IS NULL OR a.session_id = $session_id)
        AND ($item_number::BIGINT IS NULL OR a.item_number = $item_number)
        AND ($name::VARCHAR IS NULL OR a.name = $name)
),
annotations AS ($annotations)
SELECT * EXCLUDE (created_at), epoch_us(created_at) * 1000 AS created_at_ns
FROM annotations
WHERE ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
    AND ($trace_id::VARCHAR IS NULL OR trace_id = $trace_id)
    AND ($span_id::VARCHAR IS NULL OR span_id = $span_id)
    AND ($session_id::VARCHAR IS NULL OR session_id = $session_id)
    AND ($item_number::BIGINT IS NULL OR item_number = $item_number)
    AND ($name::VARCHAR IS NULL OR name = $name)
    AND ($author::VARCHAR IS NULL OR author = $author)
    AND ($history OR NOT (superseded OR withdrawn))
ORDER BY created_at DESC, number DESC NULLS LAST, span_id
LIMIT $rows OFFSET $skip;
