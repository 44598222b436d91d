"""A simulated object store: whole objects, put if absent, and answers that are lost, late or doubled."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from fsspec import AbstractFileSystem

from tests.simulation.schedule import KilledError


@dataclass
class Store:
    """The objects of all clients, by path, each with the time when it was stored.

    late: requests whose clients wait no longer; each may still take effect. came_late: when the
        last of them did, in
    moments of the account.
    """

    objects: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    late: list[Callable[[], Any]] = field(default_factory=list)
    came_late: int = 0


class Client(AbstractFileSystem):
    """One process's filesystem over a store. process: None for one whom nothing disturbs."""

    cachable = False
    protocol = "simulated"

    def __init__(self, world, process=None):
        super().__init__()
        self.world = world
        self.store = world.store
        self.process = process

    def __hash__(self):
        return id(self)

    def __eq__(self, other):
        return self is other

    def pipe_file(self, path, value, mode="overwrite", **options):
        def put():
            if mode == "create" and path in self.store.objects:
                raise OSError(errno.EINVAL, "PreconditionFailed")
            self.store.objects[path] = bytes(value), self.world.clock

        self._ask("put", path, put, changes=True)

    def cat_file(self, path, start=None, end=None, **options):
        def get():
            if path not in self.store.objects:
                raise FileNotFoundError(errno.ENOENT, "no such object", path)
            return self.store.objects[path][0][start:end]

        return self._ask("get", path, get)

    def ls(self, path, detail=True, **options):
        return self._ask("list", path, lambda: self._listed(path.strip("/")))

    def rm_file(self, path):
        def delete():
            if self.store.objects.pop(path, None) is None:
                raise FileNotFoundError(errno.ENOENT, "no such object", path)

        self._ask("delete", path, delete, changes=True)

    def modified(self, path):
        def get():
            if path not in self.store.objects:
                raise FileNotFoundError(errno.ENOENT, "no such object", path)
            return datetime.fromtimestamp(self.store.objects[path][1], UTC)

        return self._ask("head", path, get)

    def _listed(self, folder):
        within = f"{folder}/" if folder else ""
        found = {}
        for path, (data, _) in self.store.objects.items():
            if path.startswith(within):
                name, is_below, _ = path.removeprefix(within).partition("/")
                size, kind = (0, "directory") if is_below else (len(data), "file")
                found[name] = {"name": within + name, "size": size, "type": kind}
        if not found:
            raise FileNotFoundError(errno.ENOENT, "no such prefix", folder)
        return list(found.values())

    def _ask(self, kind, path, effect, *, changes=False):
        """Do a request, with what may become of it on the way there and back."""
        process = self.process
        rng = self.world.rng
        if process is None:
            return effect()
        if process.is_killed or process.is_over:
            raise KilledError
        self.world.called(process, kind, path)
        match self.world.network_fault(process, kind, path, changes=changes):
            case "error":
                raise ConnectionError(errno.ECONNRESET, "connection reset", path)
            case "late":
                self.store.late.append(effect)
                raise TimeoutError(errno.ETIMEDOUT, "no answer came", path)
            case "lost":
                _done(effect)
                raise TimeoutError(errno.ETIMEDOUT, "the answer was lost", path)
            case "doubled":
                _done(effect)
                return effect()
        answer = effect()
        if rng.random() < 0.1:  # others are served before the answer arrives
            process.schedule.step(process)
        return answer


def arrive(store, rng, now):
    """Let one of the late requests take effect, or get lost."""
    request = store.late.pop(rng.randrange(len(store.late)))
    if rng.random() < 0.7:
        store.came_late = now
        _done(request)


def _done(effect):
    with suppress(OSError):
        effect()
