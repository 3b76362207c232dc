-- Runs that have ended are looked at once whether they are worse than the one before; those that ended already are not told of.

ALTER TABLE run ADD COLUMN looked_at TIMESTAMP; -- when that was; NULL: not yet
UPDATE run SET looked_at = now() AT TIME ZONE 'UTC' WHERE "state" != 'RUNNING';
