-- Return the numbers of these decisions in the lake about spans to remove.
SELECT DISTINCT l.write_number AS number
FROM lake_rows AS l
SEMI JOIN lake_seqs AS s ON s.seq = l.seq
WHERE l.write_number <= $last;
