-- How far each table is published.
SELECT table_name, directory_id, published, attempted
FROM lake_position;
