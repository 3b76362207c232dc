-- Store readings of spans.
INSERT INTO reading BY NAME
SELECT *
FROM incoming_readings;
