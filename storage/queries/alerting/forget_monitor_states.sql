-- Forget what monitors remember.
DELETE FROM monitor_state;
