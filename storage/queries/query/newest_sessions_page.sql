-- Return the part of `sessions_page` that the newest traces determine: sessions with a trace among the newest of those
-- that start before a place. They are ordered by the start of their latest trace. Sessions as old as the oldest of
-- these traces are left out, since others may be as old.
WITH newest AS MATERIALIZED (
    SELECT tenant, session_id, start_time
    FROM trace_reading
    WHERE session_id IS NOT NULL
        AND ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
        AND start_time <= make_timestamp_ns($place_ns) -- after
    ORDER BY start_time DESC
    LIMIT $newest
), their AS MATERIALIZED (
    SELECT tenant, session_id, trace_key, start_time, user_id
    FROM trace_reading
    SEMI JOIN newest USING (tenant, session_id)
)
, like_this AS ( -- alike
    SELECT tenant, session_id -- alike
    FROM their -- alike
    WHERE start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns) -- alike
        AND user_id = $user -- user
        AND (tenant, trace_key) IN ( -- project
            SELECT (p.tenant, p.trace_key) -- project
            FROM trace_part AS p -- project
            SEMI JOIN their AS t ON t.trace_key = p.trace_key -- project
            WHERE coalesce(p.root_project, p.first_project) = $project -- project
        ) -- project
) -- alike
SELECT tenant, session_id, epoch_ns(max(start_time)) AS latest_ns
FROM their
SEMI JOIN like_this USING (tenant, session_id) -- alike
GROUP BY tenant, session_id
HAVING max(start_time) > (SELECT min(start_time) FROM newest)
    AND (latest_ns < $place_ns OR (latest_ns = $place_ns AND (session_id, tenant) > ($place_session, $place_tenant))) -- after
ORDER BY latest_ns DESC, session_id, tenant
LIMIT $limit;
