-- How far spans are matched and how far they are read.
SELECT m.seq, r.seq
FROM matching_state AS m, reading_state AS r;
