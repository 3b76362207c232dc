-- Define what the lake alone says of replaced results. Under an earlier name, the original of a restored directory may
-- have gone on, with numbers of jobs that are others here: only marks of results that are in the lake alone count.
CREATE VIEW lake.alone.superseded AS
SELECT $columns
FROM read_parquet(getvariable('lake')['superseded'], union_by_name = true, hive_partitioning = false) AS l
SEMI JOIN lake.alone.evaluation AS e ON e.directory_id = l.directory_id AND e.job_id = l.job_id
ANTI JOIN tracejury.main.superseded AS h ON h.job_id = l.job_id;
