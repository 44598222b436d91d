"""Stores that last, one file or package for each service. SQLite and folders need no server."""

from kaosmem.backends.embedded import Stores, open_stores
from kaosmem.backends.folder import FolderFileStore
from kaosmem.backends.s3 import S3FileStore

__all__ = ["FolderFileStore", "S3FileStore", "Stores", "open_stores"]
