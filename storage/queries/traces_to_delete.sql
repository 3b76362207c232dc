-- Traces that are wanted gone, of those of which a part came with the commits between two numbers: by project, session,
-- user, and by when they started; what is NULL does not matter. A session or a user that any span of a trace tells is that
-- trace's.
WITH near AS (
    SELECT DISTINCT trace_key, trace_id
    FROM trace_part
    WHERE tenant = $tenant AND batch BETWEEN $first_batch AND $last_batch
), told AS (
    SELECT trace_id
    FROM trace_reading
    WHERE tenant = $tenant
        AND ($session_id IS NULL OR session_id = $session_id)
        AND ($user_id IS NULL OR user_id = $user_id)
    UNION ALL
    SELECT trace_id
    FROM span
    WHERE tenant = $tenant AND batch BETWEEN $first_batch AND $last_batch
        AND ($session_id IS NULL OR session_id = $session_id)
        AND ($user_id IS NULL OR user_id = $user_id)
)
SELECT p.tenant, p.trace_id, any_value(p.trace_key) AS trace_key
FROM trace_part AS p
SEMI JOIN near AS n ON n.trace_key = p.trace_key AND n.trace_id = p.trace_id
WHERE p.tenant = $tenant
    AND (($session_id IS NULL AND $user_id IS NULL) OR p.trace_id IN (SELECT trace_id FROM told))
GROUP BY p.tenant, p.trace_id
HAVING ($before_ns IS NULL OR epoch_ns(min(p.start_time)) < $before_ns)
    AND ($project IS NULL
        OR coalesce(arg_min(p.root_project, p.root_start_time), arg_min(p.first_project, p.start_time)) = $project);
