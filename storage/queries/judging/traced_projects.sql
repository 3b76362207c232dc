-- Which projects the parts of traces name that came with commits after one, how many name each, and the last commit of
-- these.
SELECT tenant, coalesce(root_project, first_project) AS project, count(*), max(batch)
FROM trace_part
WHERE batch > $batch
GROUP BY ALL;
