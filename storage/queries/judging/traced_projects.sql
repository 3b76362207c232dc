-- Count the trace parts by project in commits after a number, and return the last of these commits.
SELECT tenant, coalesce(root_project, first_project) AS project, count(*), max(batch)
FROM trace_part
WHERE batch > $batch
GROUP BY ALL;
