-- How far spans are matched, and the greatest number that a span may have by now.
SELECT m.seq, ((i.batch + 1) << 20) - 1
FROM matching_state AS m, ingest_state AS i;
