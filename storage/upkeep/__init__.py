"""What leaves: retention, deletion, erasure from the file; and backups."""
