"""Stores that are written once, over SQLite and PostgreSQL."""
