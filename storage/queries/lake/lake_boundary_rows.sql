-- Return what has moved to the lake, with the day as a text.
SELECT directory_id, "day"::VARCHAR, first_batch, first_seq
FROM lake_boundary;
