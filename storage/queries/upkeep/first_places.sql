-- Return the count and the last row id of the first rows in a range of a table, up to a maximum.
SELECT count(*), max(place)
FROM (
    SELECT rowid AS place
    FROM $table
    WHERE rowid BETWEEN $first AND $last
    ORDER BY rowid
    LIMIT $rows
);
