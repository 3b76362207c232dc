-- Define a table or view whose rows are in the database alone.
CREATE VIEW lake.main."$table" AS
SELECT *
FROM tracejury.main."$table";
