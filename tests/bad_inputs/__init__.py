"""Hostile and broken inputs, each under its number in a list of cases; `test_completeness.py` says what is left out."""
