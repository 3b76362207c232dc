-- Return the boundaries below which rows may be in the lake alone; none of a name under which nothing has moved.
SELECT directory_id, "day", first_batch, first_seq
FROM lake_boundary
WHERE first_batch > 0 AND coalesce(traces + spans, 1) > 0;
