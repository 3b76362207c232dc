-- What a run is about, in words.
ALTER TABLE run ADD COLUMN description VARCHAR DEFAULT '';
