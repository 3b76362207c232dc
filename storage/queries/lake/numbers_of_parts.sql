-- Return the numbers of the parts of traces in the lake, between two numbers.
SELECT write_number
FROM trace_part
WHERE write_number BETWEEN $first AND $last;
