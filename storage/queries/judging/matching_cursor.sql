-- How far spans are matched, and the number of the last job, as the transaction finds them.
SELECT seq, last_job
FROM matching_state;
