"""The textbook: tests, intervals and sizes as formulas, each checked against published or independent numbers."""
