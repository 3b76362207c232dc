-- Counts the changes of what a receiver is: not of how it does.
ALTER TABLE alert_webhook ADD COLUMN "version" INTEGER DEFAULT 1;
