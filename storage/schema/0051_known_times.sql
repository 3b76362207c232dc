-- Times that cannot be true are not set, so that no duration is negative; what was sent stands beside them.
ALTER TABLE span ADD COLUMN sent_times UBIGINT[];

UPDATE span SET
    sent_times = list_concat(
        [(epoch_ns(start_time)::HUGEINT & 18446744073709551615)::UBIGINT, (epoch_ns(end_time)::HUGEINT & 18446744073709551615)::UBIGINT],
        list_transform(events, lambda event: (epoch_ns(event.time)::HUGEINT & 18446744073709551615)::UBIGINT)
    ),
    start_time = greatest(start_time, make_timestamp_ns(0)),
    end_time = CASE WHEN end_time < greatest(start_time, make_timestamp_ns(0)) THEN make_timestamp_ns(0) ELSE end_time END,
    duration_ms = CASE WHEN epoch_ns(start_time) > 0 AND end_time >= start_time THEN duration_ms END
WHERE start_time < make_timestamp_ns(0)
    OR end_time < make_timestamp_ns(0)
    OR (end_time < start_time AND epoch_ns(end_time) <> 0);

UPDATE trace_part SET
    start_time = greatest(start_time, make_timestamp_ns(0)),
    last_start_time = greatest(last_start_time, make_timestamp_ns(0)),
    root_start_time = CASE WHEN root_start_time < make_timestamp_ns(0) THEN make_timestamp_ns(0) ELSE root_start_time END,
    end_time = CASE WHEN end_time >= greatest(start_time, make_timestamp_ns(0)) THEN end_time END
WHERE start_time < make_timestamp_ns(0) OR end_time < start_time;

UPDATE trace_reading SET
    start_time = greatest(start_time, make_timestamp_ns(0)),
    last_start_time = greatest(last_start_time, make_timestamp_ns(0)),
    end_time = CASE WHEN end_time >= greatest(start_time, make_timestamp_ns(0)) THEN end_time END
WHERE start_time < make_timestamp_ns(0) OR end_time < start_time;

UPDATE tool_call SET
    start_time = greatest(start_time, make_timestamp_ns(0)),
    end_time = CASE WHEN end_time >= greatest(start_time, make_timestamp_ns(0)) THEN end_time END
WHERE start_time < make_timestamp_ns(0) OR end_time < start_time;
