-- How many of the jobs up to one are to be evaluated still, those that are held left out; without a number, of all, and
-- the number of the last.
SELECT
    (SELECT count(*) FROM job WHERE "state" <> 'held' AND job_id <= coalesce($until::BIGINT, last_job)),
    last_job
FROM matching_state;
