-- Forget what some revisions decided about traces with these spans, which lie between two numbers: it is decided again.
DELETE FROM decision
WHERE list_contains($revisions::INTEGER[], revision)
    AND seq BETWEEN $first AND $last
    AND seq IN (SELECT seq FROM earlier_spans);
