"""What spans mean, read of whole batches: columns in, columns out."""
