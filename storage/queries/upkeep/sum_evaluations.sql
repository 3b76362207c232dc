-- Sum the evaluations of leaving spans by day, rule revision, fingerprint and release, using the text of the view
-- `evaluation_by_day`.
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
