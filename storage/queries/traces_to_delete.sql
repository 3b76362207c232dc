-- Traces that are wanted gone: by id, project, session, user, and by when they started; what is NULL does not matter. A
-- session or a user that any span of a trace tells is that trace's.
SELECT p.tenant, p.trace_id, any_value(p.trace_key) AS trace_key
FROM trace_part AS p
WHERE p.tenant = $tenant
    AND ($trace_id IS NULL OR p.trace_id = $trace_id)
    AND (($session_id IS NULL AND $user_id IS NULL) OR p.trace_id IN (
        SELECT trace_id
        FROM trace_reading
        WHERE tenant = $tenant
            AND ($session_id IS NULL OR session_id = $session_id)
            AND ($user_id IS NULL OR user_id = $user_id)
        UNION
        SELECT s.trace_id
        FROM reading AS r
        JOIN span AS s ON s.seq = r.seq
        WHERE s.tenant = $tenant
            AND ($session_id IS NULL OR r.session_id = $session_id)
            AND ($user_id IS NULL OR r.user_id = $user_id)
    ))
GROUP BY p.tenant, p.trace_id
HAVING ($before_ns IS NULL OR epoch_ns(min(p.start_time)) < $before_ns)
    AND ($project IS NULL
        OR coalesce(arg_min(p.root_project, p.root_start_time), arg_min(p.first_project, p.start_time)) = $project)
LIMIT $traces;
