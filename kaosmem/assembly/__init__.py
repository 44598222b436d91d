"""Packing a context: grants, tails, the block, windows; and why each item is in or out."""
