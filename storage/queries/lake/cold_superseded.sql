-- Define what the lake alone says of replaced results; a restored directory has published some of it twice.
CREATE VIEW lake.alone.superseded AS
SELECT DISTINCT ON (l.write_number) $columns
FROM read_parquet(getvariable('lake')['superseded'], union_by_name = true, hive_partitioning = false) AS l
INNER JOIN tracejury.main.lake_boundary AS b ON b.directory_id = l.directory_id
ANTI JOIN tracejury.main.superseded AS h ON h.job_id = l.job_id;
