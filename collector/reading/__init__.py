"""Tells the store what spans mean as they are committed, and adds up what their traces do."""
