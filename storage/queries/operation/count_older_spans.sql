-- Count the spans that an edition of the conventions before the current one of this file read.
SELECT count(*)
FROM span
WHERE edition IS DISTINCT FROM (SELECT arg_max(edition, last_used) FROM edition);
