"""Modules that take long to import: a process that collects tests, and runs none that needs them, goes without."""

from importlib import import_module


class Lazy:
    """A module that is imported when a test first reads one of its names.

    >>> json = Lazy("json")
    >>> json.dumps([1])
    '[1]'
    """

    def __init__(self, module):
        self._module = module

    def __getattr__(self, name):
        if name.startswith("_"):  # pytest asks each object of a module for marks of its own
            raise AttributeError(name)
        return getattr(import_module(self._module), name)
