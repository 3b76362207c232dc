"""What is done in the background for what expires, is deleted or waits for people."""
