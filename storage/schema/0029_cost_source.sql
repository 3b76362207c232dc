-- By which prices the cost of a call of a model was computed; NULL where its span tells the cost, or there is none.
ALTER TABLE span ADD COLUMN cost_source VARCHAR;
