-- Count the unfinished evaluations by rule.
SELECT r.rule_id, j.amount
FROM (
    SELECT revision, count(*) AS amount
    FROM job
    WHERE ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
    GROUP BY revision
) AS j
INNER JOIN rule_revision AS r USING (revision);
