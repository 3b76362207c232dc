-- The first and the last number of the spans that came with the commits between two numbers.
SELECT min(seq), max(seq)
FROM span
WHERE batch BETWEEN $first_batch AND $last_batch;
