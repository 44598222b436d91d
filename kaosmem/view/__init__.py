"""The page that shows a session's turns: one file without a network, or served live."""
