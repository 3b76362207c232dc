-- Monitors of metrics, and what alerts about metrics have besides. Times are UTC by our own clock.

-- A metric that an operator has watched. One row each, updated in place; a deleted monitor keeps its row until its alert is over.
CREATE TABLE metric_monitor (
    tenant VARCHAR NOT NULL, -- whose spans and results are watched
    monitor_id VARCHAR NOT NULL,
    "name" VARCHAR NOT NULL,
    document VARCHAR NOT NULL, -- JSON: what it watches, and when it alerts
    "version" INTEGER NOT NULL, -- counts the changes of the document
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL,
    deleted_at TIMESTAMP,
    "state" VARCHAR, -- JSON: what the last look found and what the next one needs; NULL before the first
    alert_id VARCHAR, -- of the alert that it opened and that is not over
    looked_at TIMESTAMP
);

ALTER TABLE alert ADD COLUMN metric VARCHAR; -- NULL: the results of a rule
ALTER TABLE alert ADD COLUMN severity VARCHAR DEFAULT 'warning'; -- info, warning or critical

-- Which alerts a receiver is told of; NULL: of all.
ALTER TABLE alert_webhook ADD COLUMN rules VARCHAR[]; -- names or ids, of monitors of metrics too
ALTER TABLE alert_webhook ADD COLUMN severities VARCHAR[];

-- Alerts that nobody is told of for a while. Rows are deleted by hand, or left behind.
CREATE TABLE alert_mute (
    tenant VARCHAR NOT NULL,
    mute_id VARCHAR NOT NULL,
    project VARCHAR, -- NULL: all
    "rule" VARCHAR, -- a name or an id, of a monitor of a metric too; NULL: all
    until TIMESTAMP NOT NULL,
    muted_by VARCHAR,
    created_at TIMESTAMP NOT NULL
);
