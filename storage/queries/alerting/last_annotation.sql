-- Return the number of the last annotation; 0 if there is none.
SELECT coalesce(max(number), 0) FROM annotation;
