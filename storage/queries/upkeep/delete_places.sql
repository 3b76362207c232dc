-- Delete rows of a table by row id. The bounds let row groups be skipped.
DELETE FROM $table
WHERE rowid BETWEEN $first AND $last AND rowid IN (SELECT place FROM leaving_places);
