"""Storages of sessions: a local disk, or objects on any fsspec filesystem."""
