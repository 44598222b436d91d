"""The files of a session: their names in the manifest, their lines, and how records and items are written in them."""
