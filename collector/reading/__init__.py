"""Reading of spans as they are committed, and of their traces."""
