-- Record how far spans and log records are read; part of the transaction that stores what was read.
UPDATE reading_state SET
    edition = $edition,
    seq = $seq,
    log_batch = $log_batch,
    again_after = $again_after,
    again_until = $again_until;
