-- Alerts that became worse while they were open, and receivers that are told of many events at once.
ALTER TABLE alert ADD COLUMN escalations INTEGER DEFAULT 0; -- how often it was told that it is worse than was told before
ALTER TABLE alert ADD COLUMN escalated_at TIMESTAMP; -- the last time

-- How often a receiver is told, at full multiples of so many minutes since the Unix epoch; NULL: of each event at once.
ALTER TABLE alert_webhook ADD COLUMN digest_minutes INTEGER;

-- Who had chosen every event there was about alerts is told of the new one too.
UPDATE alert_webhook
SET events = list_append(events, 'alert.escalated')
WHERE list_has_all(events, ['alert.opened', 'alert.acknowledged', 'alert.recovered']);
