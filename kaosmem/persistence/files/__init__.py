"""The files of a session: their names, their lines, and how records and items stand in them."""
