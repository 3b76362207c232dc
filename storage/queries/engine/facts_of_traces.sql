-- Return project, service and releases of the first spans of each trace that have them, separately for roots and other
-- spans.
SELECT
    trace,
    is_root,
    min(start_time) AS project_at,
    arg_min(project, start_time) AS project,
    arg_min(service_name, start_time) AS service/* releases */
FROM looked_at
GROUP BY trace, is_root;
