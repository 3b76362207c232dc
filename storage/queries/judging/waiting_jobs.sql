-- Count the due jobs of each revision, and return when the next of the others is due.
SELECT
    revision,
    count(*) FILTER (not_before IS NULL OR not_before <= make_timestamp($now_us)) AS due,
    epoch_us(min(not_before) FILTER (not_before > make_timestamp($now_us))) AS next_us
FROM job
WHERE "state" = 'ready'
GROUP BY revision;
