-- Return the numbers of these rows of the lake that the database has no more, or of all: of those about spans from a number
-- on, and about earlier ones that are still in the database.
SELECT l.$number AS number
FROM lake_rows AS l
ANTI JOIN (SELECT $number AS number FROM $table WHERE seq < $first_seq AND NOT $all) AS h ON h.number = l.$number
WHERE l.seq >= $from_seq OR l.seq IN (SELECT seq FROM span WHERE batch < $first_batch);
