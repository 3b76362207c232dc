"""The page on which models are asked."""
