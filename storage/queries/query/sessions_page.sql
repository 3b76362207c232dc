-- Sessions by the start of their latest trace, newest first, of which one trace is as asked, after a place in this order.
-- A trace belongs to the project of its root; the texts of traces are read only where a text is asked for.
WITH told AS (
    SELECT tenant, session_id, trace_id, start_time, user_id, rowid AS place
    FROM trace_reading
    WHERE session_id IS NOT NULL AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
), with_text AS (
    SELECT rowid AS place
    FROM trace_reading
    WHERE $text::VARCHAR IS NOT NULL
        AND session_id IS NOT NULL
        AND (contains(lower("input"), $text) OR contains(lower("output"), $text))
), of_project AS (
    SELECT DISTINCT tenant, trace_id
    FROM trace_part
    WHERE $project::VARCHAR IS NOT NULL AND coalesce(root_project, first_project) = $project
), alike AS (
    SELECT tenant, session_id
    FROM told AS t
    WHERE ($user::VARCHAR IS NULL OR user_id = $user)
        AND start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns)
        AND ($text::VARCHAR IS NULL OR place IN (SELECT place FROM with_text))
        AND ($project::VARCHAR IS NULL OR (tenant, trace_id) IN (SELECT (tenant, trace_id) FROM of_project))
)
SELECT tenant, session_id, epoch_ns(max(start_time)) AS latest_ns
FROM told
SEMI JOIN alike USING (tenant, session_id)
GROUP BY tenant, session_id
HAVING $place_ns::BIGINT IS NULL
    OR latest_ns < $place_ns
    OR (latest_ns = $place_ns AND (session_id, tenant) > ($place_session, $place_tenant))
ORDER BY latest_ns DESC, session_id, tenant
LIMIT $limit;
