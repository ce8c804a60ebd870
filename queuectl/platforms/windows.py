"""Windows: see posix.py for the interface."""
