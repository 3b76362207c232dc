-- Return what has moved to the lake, with the day as a text; of names under which nothing has, nothing.
SELECT directory_id, "day"::VARCHAR, first_batch, first_seq
FROM lake_boundary
WHERE first_batch > 0;
