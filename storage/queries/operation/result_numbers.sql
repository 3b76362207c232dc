-- The number of the last result, and up to which monitors have looked at results, and others were told of them.
SELECT last_number, (SELECT number FROM monitor_cursor), (SELECT number FROM results_out) FROM result_state;
