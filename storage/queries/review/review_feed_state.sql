-- Return the last numbers of results and annotations, which tell the feeds of queues whether there are new ones.
SELECT (SELECT max(last_number) FROM result_state), (SELECT max(number) FROM annotation);
