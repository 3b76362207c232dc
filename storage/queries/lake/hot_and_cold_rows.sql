-- Define a table as its rows in the database and those in the lake alone.
CREATE VIEW lake.main.$table AS
SELECT *
FROM tracejury.main.$table
UNION ALL
SELECT * EXCLUDE (directory_id)
FROM lake.alone.$table;
