-- Return the day before which traces have moved, and how many with how many spans, as far as known; of none no row.
SELECT max("day"), coalesce(sum(traces), 0)::BIGINT, coalesce(sum(spans), 0)::BIGINT
FROM lake_boundary
WHERE first_batch > 0 AND coalesce(traces + spans, 1) > 0
HAVING count(*) > 0;
