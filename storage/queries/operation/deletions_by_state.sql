-- Count the unfinished deletions by state.
SELECT "state", count(*)
FROM deletion
WHERE "state" <> 'done'
GROUP BY "state";
