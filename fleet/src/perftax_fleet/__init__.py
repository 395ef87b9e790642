"""Queries over the data set that many hosts publish with perftax."""

__version__ = "0.1.0"
