-- Forget the name in the lake, and how far each table is published: what comes next is published under another name.
DELETE FROM lake_position;
