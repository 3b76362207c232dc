-- Stores what is secret of a receiver as it is encrypted with another key of encryption, unless it has changed.
UPDATE alert_webhook SET sealed = $sealed::BLOB
WHERE webhook_id = $webhook_id AND sealed = $before::BLOB
