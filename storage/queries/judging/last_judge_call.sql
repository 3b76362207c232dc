-- Return the number of the last judge request.
SELECT coalesce(max(call_id), 0) FROM judge_call
