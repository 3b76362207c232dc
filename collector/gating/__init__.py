"""The gate without a server: results and a baseline from files, a verdict into a file, and where people see it."""
