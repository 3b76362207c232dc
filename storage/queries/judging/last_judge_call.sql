-- The number of the last request to a judge.
SELECT coalesce(max(call_id), 0) FROM judge_call
