-- Return when the first of the newest spans since an instant started, up to a maximum of spans, and the count of all.
WITH recent AS NOT MATERIALIZED (
    SELECT start_time
    FROM span
    WHERE start_time >= make_timestamp_ns($since_ns::BIGINT) AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
)
SELECT
    (SELECT epoch_ns(min(start_time)) FROM (SELECT start_time FROM recent ORDER BY start_time DESC LIMIT $rows)),
    (SELECT count(*) FROM recent);
