-- Summarize the scores of each evaluator in some runs. An evaluator with several fingerprints within a run has none;
-- failures without one are ignored.
SELECT
    s.run_id,
    s.name,
    count(*) FILTER (s.outcome = 'scored') AS scored,
    count(*) FILTER (s.outcome = 'failed') AS failed,
    count(*) FILTER (s.outcome = 'skipped') AS skipped,
    count(*) FILTER (s.passed) AS passed,
    count(*) FILTER (NOT s.passed) AS not_passed,
    avg(s.score) AS mean,
    stddev_samp(s.score) AS deviation,
    min(s.score) AS lowest,
    max(s.score) AS highest,
    CASE
        WHEN
            min(coalesce(s.fingerprint, '')) FILTER (s.outcome != 'failed')
            IS NOT DISTINCT FROM max(coalesce(s.fingerprint, '')) FILTER (s.outcome != 'failed')
            THEN min(s.fingerprint)
    END AS fingerprint,
    CASE
        WHEN
            min(coalesce(s.evaluator_version, '')) FILTER (s.outcome != 'failed')
            IS NOT DISTINCT FROM max(coalesce(s.evaluator_version, '')) FILTER (s.outcome != 'failed')
            THEN min(s.evaluator_version)
    END AS "version",
    CASE WHEN min(s.threshold) = max(s.threshold) THEN min(s.threshold) END AS threshold,
    CASE WHEN min(s.direction) = max(s.direction) THEN min(s.direction) END AS direction,
    sum(s.cost_usd) AS cost_usd
FROM run_score AS s
WHERE s.run_id IN (SELECT unnest($runs::VARCHAR[]))
    AND s.score_number NOT IN (
        SELECT score_number FROM superseded_score WHERE run_id IN (SELECT unnest($runs::VARCHAR[]))
    )
GROUP BY s.run_id, s.name
ORDER BY s.run_id, s.name;
