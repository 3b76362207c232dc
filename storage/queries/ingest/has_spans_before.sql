-- Whether spans of commits before one are stored.
SELECT EXISTS (SELECT 1 FROM span WHERE batch < $batch);
