-- Delete a mute, and all that are over at a moment, if there is one.
DELETE FROM alert_mute
WHERE mute_id = $mute_id OR until <= make_timestamp($at_us::BIGINT);
