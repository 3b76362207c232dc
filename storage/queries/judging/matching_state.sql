-- Return the position of matching, and the greatest possible span number.
SELECT m.seq, ((i.batch + 1) << 20) - 1
FROM matching_state AS m, ingest_state AS i;
