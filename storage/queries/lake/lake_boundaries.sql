-- Return what has moved to the lake, for each name of this directory.
SELECT directory_id, "day", first_batch, first_seq
FROM lake_boundary;
