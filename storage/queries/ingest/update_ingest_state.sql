-- Record how far the spool is committed; part of the transaction that commits it.
UPDATE ingest_state SET
    batch = $batch,
    spool_sequence = $spool_sequence,
    spool_rows = $spool_rows,
    stored = stored + $stored,
    already_present = already_present + $already_present,
    logs_stored = logs_stored + $logs_stored,
    logs_already_present = logs_already_present + $logs_already_present,
    set_aside = set_aside + $set_aside;
