-- What feeds of queues look at: how many results and annotations there have been.
SELECT (SELECT max(last_number) FROM result_state), (SELECT max(number) FROM annotation);
