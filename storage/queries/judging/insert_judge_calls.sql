-- Insert judge requests, each once, with their reservations and, if they have ended, their usage. The bounds limit the
-- search to the rows that have such calls.
INSERT INTO judge_call BY NAME
SELECT *
FROM incoming_calls
WHERE call_id NOT IN (SELECT call_id FROM judge_call WHERE call_id BETWEEN $first AND $last)
