-- Traces about which a revision has decided, by their spans, which lie between two numbers.
SELECT DISTINCT w.trace
FROM decision AS d
INNER JOIN wanted_spans AS w ON w.seq = d.seq
WHERE d.outcome <> 3 AND d.revision = $revision AND d.seq BETWEEN $first AND $last;
