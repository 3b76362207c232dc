-- Delete the states of monitors.
DELETE FROM monitor_state;
