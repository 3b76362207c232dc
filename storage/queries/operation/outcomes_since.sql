-- How many evaluations came to which outcome since an instant.
SELECT outcome, count(*)
FROM evaluation
WHERE created_at >= make_timestamp($since_us::BIGINT)
GROUP BY outcome;
