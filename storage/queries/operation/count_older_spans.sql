-- How many spans were read by another edition of the conventions than the last that reads this file.
SELECT count(*)
FROM span
WHERE edition IS DISTINCT FROM (SELECT arg_max(edition, last_used) FROM edition);
