"""One table per dialect: how it is recognised, the kinds of its spans, and the attributes that hold each field."""
