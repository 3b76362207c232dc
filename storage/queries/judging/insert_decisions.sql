-- Insert decisions.
INSERT INTO decision BY NAME
SELECT revision, seq, outcome, clause, make_timestamp($now_us) AS decided_at
FROM incoming_decisions;
