"""Stores in one file of SQLite, which several processes may share."""
