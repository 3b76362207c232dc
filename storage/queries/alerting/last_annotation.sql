-- The number of the last annotation; 0 where there is none.
SELECT coalesce(max(number), 0) FROM annotation;
