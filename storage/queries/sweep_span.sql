-- Delete spans that leave; the bounds let row groups be skipped.
DELETE FROM span
WHERE batch BETWEEN $first_batch AND $last_batch AND seq BETWEEN $first_seq AND $last_seq AND seq IN (SELECT seq FROM leaving_spans);
