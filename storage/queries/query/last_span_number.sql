-- The greatest number of all spans.
SELECT max(seq)
FROM span;
