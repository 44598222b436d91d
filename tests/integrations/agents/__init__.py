"""Agents of frameworks for tests and benchmarks, each with a scripted model."""
