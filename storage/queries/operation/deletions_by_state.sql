-- How many deletions that are not done are in each state.
SELECT "state", count(*)
FROM deletion
WHERE "state" <> 'done'
GROUP BY "state";
