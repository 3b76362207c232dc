-- Store a receiver's secret, encrypted with another key, unless the receiver has changed.
UPDATE alert_webhook SET sealed = $sealed::BLOB
WHERE webhook_id = $webhook_id AND sealed = $before::BLOB
