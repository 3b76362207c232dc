-- Define the decisions that are in the lake alone. Of a span that stayed, the lake may have earlier decisions.
CREATE VIEW lake.alone.decision AS
SELECT $columns
FROM read_parquet(getvariable('lake')['decision'], union_by_name = true, hive_partitioning = false) AS l
INNER JOIN tracejury.main.lake_boundary AS b ON b.directory_id = l.directory_id AND l.seq < b.first_seq
ANTI JOIN (
    SELECT seq
    FROM tracejury.main.span
    WHERE batch < getvariable('lake')['batch']
) AS h ON h.seq = l.seq
ANTI JOIN (
    SELECT write_number
    FROM tracejury.main.decision
    WHERE seq < getvariable('lake')['seq']
) AS w ON w.write_number = l.write_number;
