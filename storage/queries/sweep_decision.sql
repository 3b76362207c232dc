-- Delete what rules decided of spans that leave, and of their traces; the bounds let row groups be skipped.
DELETE FROM decision
WHERE seq BETWEEN $first_seq AND $last_seq AND seq IN (SELECT seq FROM leaving_spans);
