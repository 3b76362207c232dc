-- Add up the evaluations of spans that leave, by day, rule revision, fingerprint and release: of these the view
-- `evaluation_by_day` is asked by its text.
INSERT INTO evaluation_day BY NAME
WITH evaluation AS (
    SELECT *
    FROM tracejury.evaluation
    WHERE seq BETWEEN $first_seq AND $last_seq AND seq IN (SELECT seq FROM leaving_spans)
)
SELECT * EXCLUDE (last_at)
FROM (
    $by_day
);
