-- Return whether spans of commits before a number are stored.
SELECT EXISTS (SELECT 1 FROM span WHERE batch < $batch);
