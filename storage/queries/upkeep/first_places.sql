-- The first rows of a stretch of a table, so many at most: how many they are, and where the last of them is.
SELECT count(*), max(place)
FROM (
    SELECT rowid AS place
    FROM $table
    WHERE rowid BETWEEN $first AND $last
    ORDER BY rowid
    LIMIT $rows
);
