-- Use an edition of the conventions, under a new number if this file has none for it.
MERGE INTO edition AS e
USING (SELECT $digest AS digest) AS i ON i.digest = e.digest
WHEN MATCHED THEN UPDATE SET last_used = now()::TIMESTAMP
WHEN NOT MATCHED THEN INSERT VALUES ((SELECT coalesce(max(edition), 0) + 1 FROM edition), $digest, now()::TIMESTAMP);
