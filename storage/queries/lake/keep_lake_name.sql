-- Keep the name under which this directory has published, as one under which nothing has moved, so that deletions also
-- remove what is published under it.
INSERT INTO lake_boundary (directory_id, "day", first_batch, first_seq)
SELECT DISTINCT directory_id, DATE '1970-01-01', 0, 0
FROM lake_position
ANTI JOIN lake_boundary USING (directory_id)
WHERE published > 0 OR len(attempted) > 0;
