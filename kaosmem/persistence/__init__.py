"""The session log: durable on any fsspec filesystem, with synchronous calls."""
