-- Record the usage of judge requests. The bounds limit the search to the rows that have such calls.
UPDATE judge_call SET
    input_tokens = settled.input_tokens,
    output_tokens = settled.output_tokens,
    tokens = settled.tokens,
    usd = settled.usd,
    outcome = settled.outcome,
    ended_at = settled.ended_at,
    write_number = nextval('write_number')
FROM settled_calls AS settled
WHERE judge_call.call_id = settled.call_id AND judge_call.call_id BETWEEN $first AND $last
