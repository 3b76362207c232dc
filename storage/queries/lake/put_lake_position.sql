-- Note up to which number a table is published, and up to which it is going to be.
MERGE INTO lake_position AS p
USING (SELECT $table AS table_name) AS n ON p.table_name = n.table_name
WHEN MATCHED THEN UPDATE SET published = $published, attempted = $attempted
WHEN NOT MATCHED THEN INSERT (table_name, directory_id, published, attempted)
    VALUES ($table, $directory_id, $published, $attempted);
