-- Whether anybody of a tenant answered a question about spans, traces or sessions.
SELECT 1
FROM annotation
WHERE tenant = $tenant AND name = $name AND trace_id IS NOT NULL
LIMIT 1;
