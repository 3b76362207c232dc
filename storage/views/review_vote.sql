-- Votes on review entries: answers to the question of the queue, wherever they were given, unless removed. `decides`
-- is false for unsure votes, which leave the entry open for others.
CREATE OR REPLACE VIEW review_vote AS
SELECT
    e.tenant,
    e.queue_id,
    e.entry_id,
    a.author,
    arg_max(a.label, a.number) AS label,
    lower(coalesce(arg_max(a.label, a.number), '')) <> 'unsure' AS decides
FROM review_entry AS e
INNER JOIN review_queue AS q ON q.queue_id = e.queue_id
INNER JOIN annotation AS a
    ON a.tenant = e.tenant
    AND a.name = q.question
    AND a.target = e.target
    AND a.trace_id IS NOT DISTINCT FROM e.trace_id
    AND a.span_id IS NOT DISTINCT FROM e.span_id
    AND a.run_id IS NOT DISTINCT FROM e.run_id
    AND a.item_number IS NOT DISTINCT FROM e.item_number
WHERE a.source IN ('person', 'adjudicator')
GROUP BY ALL
HAVING NOT arg_max(a.withdrawn, a.number);
