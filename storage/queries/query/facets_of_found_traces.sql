-- How many of the traces that were found have which status, project and service, the $most most frequent of each, and how
-- many values there are.
WITH told AS (
    SELECT 'status' AS facet, CASE WHEN is_failed THEN 'error' ELSE 'ok' END AS "value" FROM found_traces
    UNION ALL
    SELECT 'project', project FROM found_traces
    UNION ALL
    SELECT 'service', service FROM found_traces
)
SELECT facet, "value", count(*) AS traces, count(*) OVER (PARTITION BY facet) AS many
FROM told
GROUP BY facet, "value"
QUALIFY row_number() OVER (PARTITION BY facet ORDER BY count(*) DESC, "value") <= $most
ORDER BY facet, traces DESC, "value";
