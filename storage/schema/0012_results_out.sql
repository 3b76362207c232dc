-- How far results were told to the endpoint of the operator's, and who we are: what we told is no score from elsewhere.
CREATE TABLE results_out (
    number BIGINT NOT NULL, -- results up to this one were told
    instance VARCHAR NOT NULL
);

INSERT INTO results_out VALUES (0, uuid()::VARCHAR);
