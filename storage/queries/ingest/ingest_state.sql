-- The last commit, how far the spool is committed, and what became of the spans and log records so far.
SELECT batch, spool_sequence, spool_rows, stored, already_present, logs_stored, logs_already_present, set_aside
FROM ingest_state;
