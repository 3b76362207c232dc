-- How far spans and log records are read, by which edition, and what is to be read again.
SELECT edition, seq, log_batch, again_after, again_until
FROM reading_state;
