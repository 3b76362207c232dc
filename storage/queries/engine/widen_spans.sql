-- Move the spans between two places into the table that has what they mean beside them; of these the readings, resources and
-- scopes that were joined to them.
INSERT INTO wide_span BY NAME
SELECT
    s.* EXCLUDE (resource_id, scope_id),
    CASE
        WHEN epoch_ns(s.end_time) <> 0 AND epoch_ns(s.start_time) <> 0
            THEN (epoch_ns(s.end_time)::HUGEINT - epoch_ns(s.start_time)) / 1e6
    END AS duration_ms,
    r.attributes['service.version'] AS service_version,
    to_json(coalesce(r.attributes, MAP {}))::VARCHAR AS resource_attributes,
    nullif(json_merge_patch('{}', json_object(
        'types', nullif(r.attribute_types, repeat('s', length(r.attribute_types))),
        'dropped_attributes_count', nullif(r.dropped_attributes_count, 0),
        'schema_url', nullif(r.schema_url, ''),
        'entity_refs', nullif(r.entity_refs, [])
    ))::VARCHAR, '{}') AS resource_meta,
    c.name AS scope_name,
    c.version AS scope_version,
    to_json(coalesce(c.attributes, MAP {}))::VARCHAR AS scope_attributes,
    nullif(json_merge_patch('{}', json_object(
        'types', nullif(c.attribute_types, repeat('s', length(c.attribute_types))),
        'dropped_attributes_count', nullif(c.dropped_attributes_count, 0),
        'schema_url', nullif(c.schema_url, '')
    ))::VARCHAR, '{}') AS scope_meta,
    coalesce(m.span_type, 'other') AS span_type,
    m.* EXCLUDE (seq, span_type, "input", "output", input_key, output_key, input_path, output_path),
    coalesce(
        m.input,
        s.attributes[m.input_key],
        TRY(json_extract_string(coalesce(m.input_messages, s.attributes[m.input_messages_key]), m.input_path))
    ) AS "input",
    coalesce(
        m.output,
        s.attributes[m.output_key],
        TRY(json_extract_string(coalesce(m.output_messages, s.attributes[m.output_messages_key]), m.output_path))
    ) AS "output",
    s.attributes['gen_ai.response.id'] AS response_id
FROM span AS s
LEFT JOIN resource AS r ON r.resource_id = s.resource_id
LEFT JOIN "scope" AS c ON c.scope_id = s.scope_id
LEFT JOIN (
    SELECT *
    FROM reading
    WHERE seq BETWEEN $from_number AND $to_number AND seq IN (SELECT seq FROM span WHERE rowid BETWEEN $first AND $last)
) AS m ON m.seq = s.seq
WHERE s.rowid BETWEEN $first AND $last;
