-- Return the position of matching and the number of the last job, as this transaction sees them.
SELECT seq, last_job
FROM matching_state;
