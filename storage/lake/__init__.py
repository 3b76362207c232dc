"""The lake: committed rows as Delta tables in a directory or an object store. Needs the extra `tracejury[lake]`."""
