-- Delete a mute, if there is one, and all mutes that ended before an instant.
DELETE FROM alert_mute
WHERE mute_id = $mute_id OR until <= make_timestamp($at_us::BIGINT);
