-- Count the skipped and failed evaluations of a revision since an instant, by kind of reason.
SELECT
    outcome,
    error_kind AS kind,
    count(*) AS amount
FROM evaluation
WHERE revision = $revision
    AND created_at >= make_timestamp($since_us::BIGINT)
    AND outcome <> 'scored'
    AND job_id NOT IN (SELECT job_id FROM superseded)
GROUP BY ALL
ORDER BY outcome DESC, amount DESC, kind
LIMIT $rows;
