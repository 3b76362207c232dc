-- Store the log records of a batch under the number of the commit.
INSERT INTO log_record BY NAME
SELECT *, $batch::BIGINT AS batch
FROM incoming_logs;
