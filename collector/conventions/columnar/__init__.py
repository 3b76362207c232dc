"""The meaning of spans, read in whole batches: columns in, columns out."""
