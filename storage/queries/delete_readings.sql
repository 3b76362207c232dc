-- Forget the readings that others replace; the bounds let row groups be skipped.
DELETE FROM reading
WHERE seq BETWEEN $first AND $last AND seq IN (SELECT seq FROM incoming_readings);
