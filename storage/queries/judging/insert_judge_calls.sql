-- Stores requests to judges with what was set aside for them, and of those that have ended what they took; none twice.
-- The bounds keep the search to where such calls are.
INSERT INTO judge_call BY NAME
SELECT *
FROM incoming_calls
WHERE call_id NOT IN (SELECT call_id FROM judge_call WHERE call_id BETWEEN $first AND $last)
