"""Files on any fsspec filesystem as passages, each with an id, its source and its place in that.

`find_files` lists the files of a place. `changes` says which of them must be read. `read_passages`
reads those.
"""
