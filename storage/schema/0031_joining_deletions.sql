-- A deletion begins where the ones under way are, so that they share what is written anew, and comes to the commits before that last.

ALTER TABLE deletion ADD COLUMN began_batch BIGINT DEFAULT -1; -- it began after this commit
ALTER TABLE deletion ADD COLUMN wrapped BOOLEAN DEFAULT false; -- whether it is at the commits up to `began_batch` now
