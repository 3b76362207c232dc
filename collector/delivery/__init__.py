"""Notifying receivers of alerts: the payloads, their signatures, the allowed addresses, and the retries."""
