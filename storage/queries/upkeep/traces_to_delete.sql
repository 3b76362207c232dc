-- Return the traces that a deletion selects, with the first such deletion, among those with a part in the commits
-- between two numbers. A deletion selects by project, session, user and start time; NULL matches all. A session or user
-- that any span of a trace names is that trace's.
WITH near AS (
    SELECT DISTINCT trace_key, trace_id
    FROM trace_part
    WHERE tenant = $tenant AND batch BETWEEN $first_batch AND $last_batch
), told AS NOT MATERIALIZED ( -- else all of it is put into memory
    SELECT trace_id, session_id, user_id
    FROM trace_reading
    WHERE tenant = $tenant
    UNION ALL
    SELECT trace_id, session_id, user_id
    FROM span
    WHERE tenant = $tenant AND batch BETWEEN $first_batch AND $last_batch
), named AS (
    SELECT w.number, t.trace_id
    FROM told AS t
    JOIN wanted_deletions AS w ON w.user_id = t.user_id AND (w.session_id IS NULL OR w.session_id = t.session_id)
    UNION ALL
    SELECT w.number, t.trace_id
    FROM told AS t
    JOIN wanted_deletions AS w ON w.session_id = t.session_id AND w.user_id IS NULL
    UNION ALL
    SELECT w.number, n.trace_id
    FROM near AS n
    JOIN wanted_deletions AS w ON w.user_id IS NULL AND w.session_id IS NULL
), parts AS (
    SELECT
        p.trace_id,
        any_value(p.trace_key) AS trace_key,
        epoch_ns(min(p.start_time)) AS start_ns,
        coalesce(arg_min(p.root_project, p.root_start_time), arg_min(p.first_project, p.start_time)) AS project
    FROM trace_part AS p
    SEMI JOIN near AS n ON n.trace_key = p.trace_key AND n.trace_id = p.trace_id
    SEMI JOIN named AS m ON m.trace_id = p.trace_id
    WHERE p.tenant = $tenant
    GROUP BY p.trace_id
)
SELECT $tenant AS tenant, p.trace_id, any_value(p.trace_key), min(w.number)
FROM parts AS p
JOIN named AS m ON m.trace_id = p.trace_id
JOIN wanted_deletions AS w ON w.number = m.number
WHERE (w.before_ns IS NULL OR p.start_ns < w.before_ns) AND (w.project IS NULL OR w.project = p.project)
GROUP BY p.trace_id;
