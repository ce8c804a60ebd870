"""A background job queue for shell commands."""

__version__ = "0.1.0"
