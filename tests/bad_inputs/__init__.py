"""Hostile and broken inputs, each under its number; where a case and the design disagree, the design wins."""
