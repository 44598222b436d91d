"""Keeping a session in its log: what is written, what others wrote, and what a log gives back."""
