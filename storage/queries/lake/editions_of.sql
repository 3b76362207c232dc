-- Return the numbers of an edition of the conventions.
SELECT edition
FROM edition
WHERE digest = $digest;
