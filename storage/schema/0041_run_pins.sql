-- Runs that somebody keeps beyond their expiry; since when, and NULL for all others.
ALTER TABLE run ADD COLUMN pinned_at TIMESTAMP;
