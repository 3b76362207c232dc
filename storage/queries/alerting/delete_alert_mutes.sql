-- Delete a mute, and all that are over.
DELETE FROM alert_mute
WHERE mute_id = $mute_id OR until <= make_timestamp($at_us::BIGINT);
