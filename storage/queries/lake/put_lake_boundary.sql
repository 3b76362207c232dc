-- Move the boundary of a name; of a new one with the number of traces and spans that have moved, or NULL.
MERGE INTO lake_boundary AS b
USING (SELECT $directory_id AS directory_id) AS n ON b.directory_id = n.directory_id
WHEN MATCHED THEN UPDATE SET "day" = $day, first_batch = $first_batch, first_seq = $first_seq
WHEN NOT MATCHED THEN INSERT (directory_id, "day", first_batch, first_seq, traces, spans)
    VALUES ($directory_id, $day, $first_batch, $first_seq, $moved, $moved);
