-- How many spans are not read yet, up to a hundred thousand, and how many seconds ago the first of them came.
SELECT count(*), greatest(epoch(now()::TIMESTAMP) - epoch(min(received_at)), 0)
FROM (
    SELECT received_at FROM span WHERE seq > (SELECT seq FROM reading_state) LIMIT 100000
);
