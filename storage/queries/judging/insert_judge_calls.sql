-- Sets aside what requests to judges may take, before they are made.
INSERT INTO judge_call BY NAME SELECT * FROM incoming_calls
