-- Return the name under which this directory publishes.
SELECT directory_id
FROM lake_position
LIMIT 1;
