"""Monitors, alerts, and the outbox from which webhooks are sent."""
