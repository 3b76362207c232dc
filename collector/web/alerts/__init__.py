"""Alerts, monitors of measures and webhooks."""
