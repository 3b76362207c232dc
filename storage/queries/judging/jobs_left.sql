-- Count the unfinished jobs up to a number, except held ones; without a number, count all and return the last number.
SELECT
    (SELECT count(*) FROM job WHERE "state" <> 'held' AND job_id <= coalesce($until::BIGINT, last_job)),
    last_job
FROM matching_state;
