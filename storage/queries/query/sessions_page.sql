-- Return sessions that have a matching trace, by the start of their latest trace, newest first, after a place in this
-- order. A line that ends with the name of a condition is kept only if the search has it (`alike`: any condition on a
-- trace). A trace belongs to the project of its root. Texts of traces are read only for a condition on texts.
SELECT tenant, session_id, epoch_ns(max(start_time)) AS latest_ns
FROM trace_reading
SEMI JOIN ( -- alike
    SELECT tenant, session_id -- alike
    FROM trace_reading -- alike
    WHERE session_id IS NOT NULL -- alike
        AND start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns) -- alike
        AND user_id = $user -- user
        AND (contains(lower("input"), $text) OR contains(lower("output"), $text)) -- text
        AND (tenant, trace_key) IN ( -- project
            SELECT (tenant, trace_key) -- project
            FROM trace_part -- project
            WHERE coalesce(root_project, first_project) = $project -- project
        ) -- project
) AS like_this USING (tenant, session_id) -- alike
WHERE session_id IS NOT NULL AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
    AND start_time > make_timestamp_ns($floor_ns) -- recent
GROUP BY tenant, session_id
HAVING latest_ns < $place_ns OR (latest_ns = $place_ns AND (session_id, tenant) > ($place_session, $place_tenant)) -- after
ORDER BY latest_ns DESC, session_id, tenant
LIMIT $limit;
