-- Count the spans and trace parts of each of the next commits.
SELECT batch, sum(span_count)::BIGINT AS spans, count(*) AS parts
FROM trace_part
WHERE batch BETWEEN $first_batch AND $last_batch
GROUP BY batch
ORDER BY batch
LIMIT $commits;
