-- The last rows of a stretch of a table, so many at most: how many they are, and where the first of them is.
SELECT count(*), min(place)
FROM (
    SELECT rowid AS place
    FROM $table
    WHERE rowid BETWEEN $first AND $last
    ORDER BY rowid DESC
    LIMIT $rows
);
