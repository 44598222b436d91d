"""Turns as they were: requests and decisions, kept without a second copy of any text."""
