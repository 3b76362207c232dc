"""Quality of rules over time, and releases compared."""
