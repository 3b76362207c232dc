-- Store the spans of a batch under the number of the commit.
INSERT INTO span BY NAME
SELECT *, $batch::BIGINT AS batch
FROM incoming_spans;
