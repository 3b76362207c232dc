"""One table a dialect: how it is recognised, what its spans do, and where each field lives."""
