-- Choose the files of the lake that the next statements read, and bound what they compare with the database.
SET VARIABLE lake = {
    'span': string_split($span, chr(10)),
    'log_record': string_split($log_record, chr(10)),
    'trace_part': string_split($trace_part, chr(10)),
    'trace_reading': string_split($trace_reading, chr(10)),
    'tool_call': string_split($tool_call, chr(10)),
    'decision': string_split($decision, chr(10)),
    'evaluation': string_split($evaluation, chr(10)),
    'superseded': string_split($superseded, chr(10)),
    'backfill_result': string_split($backfill_result, chr(10)),
    'batch': $batch::BIGINT,
    'seq': $seq::BIGINT,
    'until': make_timestamp_ns($until::BIGINT)
};
