-- Return the row ids of the marks of leaving evaluations, and of leaving jobs without an evaluation.
SELECT rowid AS place
FROM superseded
WHERE job_id IN (
    SELECT job_id
    FROM evaluation
    WHERE seq BETWEEN $first_seq AND $last_seq AND seq IN (SELECT seq FROM leaving_spans)
    UNION ALL
    SELECT job_id
    FROM job
    WHERE seq BETWEEN $first_seq AND $last_seq AND seq IN (SELECT seq FROM leaving_spans)
);
