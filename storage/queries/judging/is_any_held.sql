-- Return whether any job is held.
SELECT EXISTS (SELECT 1 FROM job WHERE "state" = 'held');
