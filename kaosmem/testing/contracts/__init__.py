"""The contracts: tests that every store, format, ranker and compaction strategy passes."""
