-- The outcome of each run item: "error" if its task failed; "not evaluated" if any of its evaluations failed, because
-- rates would otherwise lose passed items and keep failed ones; else by its scores.
CREATE OR REPLACE VIEW outcome_of_run_item AS
SELECT
    i.tenant,
    i.run_id,
    i.item_number,
    CASE
        WHEN i.error IS NOT NULL OR i.error_kind IS NOT NULL THEN 'error'
        WHEN s.failed > 0 THEN 'not_evaluated'
        WHEN s.not_passed > 0 THEN 'not_passed'
        WHEN s.passed > 0 THEN 'passed'
        ELSE 'unjudged'
    END AS outcome
FROM run_item AS i
LEFT JOIN (
    SELECT
        run_id,
        item_number,
        count(*) FILTER (outcome = 'failed') AS failed,
        count(*) FILTER (outcome = 'scored' AND passed) AS passed,
        count(*) FILTER (outcome = 'scored' AND NOT passed) AS not_passed
    FROM run_score
    WHERE score_number NOT IN (SELECT score_number FROM superseded_score)
    GROUP BY run_id, item_number
) AS s ON s.run_id = i.run_id AND s.item_number = i.item_number;
