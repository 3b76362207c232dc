-- Delete the readings of spans that leave; the bounds let row groups be skipped.
DELETE FROM reading
WHERE seq BETWEEN $first_seq AND $last_seq AND seq IN (SELECT seq FROM leaving_spans);
