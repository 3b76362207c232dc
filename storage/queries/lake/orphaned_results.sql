-- Return the numbers of these results of jobs over the lake that are about no part of a trace there.
SELECT DISTINCT r.write_number AS number
FROM lake_rows AS r
ANTI JOIN lake_parts AS p ON p.write_number = r.write_number;
