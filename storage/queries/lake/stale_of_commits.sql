-- Return the numbers of these rows of the lake, from before a commit, that the database has no more.
SELECT l.$number AS number
FROM lake_rows AS l
ANTI JOIN (SELECT $number AS number FROM $table WHERE batch < $first_batch) AS h ON h.number = l.$number;
