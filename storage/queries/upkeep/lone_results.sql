-- Return the numbers of spans that moved, about which decisions or results came later, if the lake has all of these.
SELECT DISTINCT seq
FROM (
    SELECT seq FROM decision WHERE seq < $first_seq AND write_number <= $decision
    UNION ALL
    SELECT seq FROM evaluation WHERE seq < $first_seq AND number <= $evaluation
)
ANTI JOIN (
    SELECT seq FROM span WHERE batch < $first_batch
    UNION ALL
    SELECT seq FROM job
    UNION ALL
    SELECT seq FROM decision WHERE write_number > $decision
    UNION ALL
    SELECT seq FROM evaluation WHERE number > $evaluation
    UNION ALL
    SELECT seq FROM evaluation WHERE job_id IN (SELECT job_id FROM superseded WHERE write_number > $superseded)
) USING (seq)
LIMIT $rows;
