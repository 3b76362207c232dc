"""What is taken out of spans and log records before anything of them is written."""
