-- Return whether a question about spans, traces or sessions has an answer in a tenant.
SELECT 1
FROM annotation
WHERE tenant = $tenant AND name = $name AND trace_id IS NOT NULL
LIMIT 1;
