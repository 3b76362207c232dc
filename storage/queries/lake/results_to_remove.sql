-- Return the numbers of these decisions or results in the lake about spans to remove.
SELECT DISTINCT l.$number AS number
FROM lake_rows AS l
SEMI JOIN lake_spans AS s ON s.seq = l.seq;
