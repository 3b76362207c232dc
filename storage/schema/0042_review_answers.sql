-- What queues are answered with: one of the labels, a score between two bounds, or a text.

ALTER TABLE review_queue ADD COLUMN answer VARCHAR DEFAULT 'label'; -- label, score or text
ALTER TABLE review_queue ADD COLUMN low DOUBLE; -- of a score
ALTER TABLE review_queue ADD COLUMN high DOUBLE;
