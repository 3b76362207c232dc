-- How many spans are read and not matched yet, up to a hundred thousand, and how many seconds ago the first of them came.
SELECT count(*), greatest(epoch(now()::TIMESTAMP) - epoch(min(received_at)), 0)
FROM (
    SELECT received_at
    FROM span
    WHERE seq > (SELECT seq FROM matching_state) AND seq <= (SELECT seq FROM reading_state)
    LIMIT 100000
);
