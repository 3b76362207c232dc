-- Count the targets of a trial that fail each clause, and of the others those that are sampled and called for.
SELECT clause, clause IS NULL AND sampled AS sampled, clause IS NULL AND sampled AND flagged AS flagged, count(*)
FROM target
GROUP BY ALL
ORDER BY ALL;
