-- Return the last commit, the committed position of the spool, and the counts of spans and log records by outcome.
SELECT batch, spool_sequence, spool_rows, stored, already_present, logs_stored, logs_already_present, set_aside
FROM ingest_state;
