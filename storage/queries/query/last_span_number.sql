-- Return the greatest span number.
SELECT max(seq)
FROM span;
