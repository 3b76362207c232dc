"""Monitors, quality, alerts and webhooks over HTTP."""
