-- Move the log records between two places into the table that has their resources and scopes
-- beside them.
INSERT INTO wide_log_record BY NAME
SELECT
    l.* EXCLUDE (resource_id, scope_id),
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
    ))::VARCHAR, '{}') AS scope_meta
FROM log_record AS l
LEFT JOIN resource AS r ON r.resource_id = l.resource_id
LEFT JOIN "scope" AS c ON c.scope_id = l.scope_id
WHERE l.rowid BETWEEN $first AND $last;
