"""Servers as processes of this one: started together, watched and stopped together."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from kaosmem.devstack.servers import HOST, PASSWORD_VARIABLE, Server
from kaosmem.errors import LocalServerError, MissingExtraError

_STARTS_WITHIN_S = 60
_POLL_S = 0.05


class LocalServer:
    """A server that runs as a process of this one.

    It may be stopped and started again with the data it keeps.

    folder: holds the server's files and its log. durable: whether data survive a stop.
    """

    def __init__(self, server: Server, folder: Path, *, durable: bool) -> None:
        self.server = server
        self.folder = folder
        self.durable = durable
        self.log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        state = "runs" if self.is_running else "stopped"
        return f"<LocalServer {self.server.name} on port {self.server.port}, {state}>"

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def launch(self) -> None:
        """Start the process, and do not wait until it answers.

        Raises LocalServerError for a port that is taken.
        """
        _check_port(self.server)
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.server.user is not None:
            shutil.chown(self.folder, self.server.user)
        command = self.server.command(self.folder, durable=self.durable)
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                user=self.server.user,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl+C on the terminal is for this process, which stops the servers
                start_new_session=True,
            )
        # Its input ends with this process, however that ends.
        guard = ["/bin/sh", "-c", 'read -r _; kill -KILL "$0"', str(self._process.pid)]
        self._guard = subprocess.Popen(guard, stdin=subprocess.PIPE, start_new_session=True)

    def wait_until_ready(self, interrupted: Callable[[], bool] = lambda: False) -> bool:
        """Wait until the server answers, and set it up. Return False if interrupted before.

        Raises LocalServerError with the end of its log if it ends, or does not answer within a
        minute.
        """
        assert self._process is not None
        until = time.monotonic() + _STARTS_WITHIN_S
        while not self.server.is_ready(self.folder, self._process.pid):
            if interrupted():
                return False
            if not self.is_running:
                self.fail("does not start")
            if time.monotonic() > until:
                self.fail(f"does not answer within {_STARTS_WITHIN_S} s")
            time.sleep(_POLL_S)
        self.server.set_up()
        return True

    def start(self) -> None:
        """Start the process and wait until the server answers."""
        self.launch()
        self.wait_until_ready()

    def ask_to_stop(self) -> None:
        """Send the signal that stops the server."""
        if self._process is not None and self.is_running:
            self._process.send_signal(self.server.stop_signal(durable=self.durable))

    def stop(self) -> None:
        """Stop the server, with force if it takes too long. Nothing of it is left running."""
        if self._process is None:
            return
        self.ask_to_stop()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(self.server.stops_within_s)
        with suppress(
            ProcessLookupError, PermissionError
        ):  # its own processes, if it ended without them
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
        self._process.wait()
        self._process = None
        self._guard = None

    def fail(self, what: str) -> NoReturn:
        """Raise LocalServerError with the end of the log."""
        said = self.log.read_bytes()[-1_500:].decode(errors="replace").strip()
        raise LocalServerError(
            f"the server {self.server.name!r} {what}; the end of its log: {said or '(empty)'}"
        )


@contextmanager
def started(
    servers: Sequence[Server],
    folder: Path | None = None,
    *,
    interrupted: Callable[[], bool] = lambda: False,
) -> Iterator[list[LocalServer]]:
    """Start servers together, yield them when they answer, and stop them at the end, whatever happens.

    folder: keeps the data. By default they are in a temporary folder, and gone at the end.
    interrupted: asked while the servers start; if true, they are stopped and none is yielded.
    Raises LocalServerError and MissingExtraError.
    """
    with ExitStack() as stack:
        if durable := folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        else:
            folder = Path(
                stack.enter_context(
                    TemporaryDirectory(prefix="kaosmem-", ignore_cleanup_errors=True)
                )
            )
            folder.chmod(0o711)  # another user may have to enter
        locals_ = [
            LocalServer(server, folder.absolute() / server.name, durable=durable)
            for server in servers
        ]
        for each in locals_:
            _check_port(each.server)  # before anything starts
        stack.callback(stop_all, locals_)
        for each in locals_:
            if not interrupted():
                each.launch()
        is_up = not interrupted() and all(each.wait_until_ready(interrupted) for each in locals_)
        yield locals_ if is_up else []


def stop_all(servers: Sequence[LocalServer]) -> None:
    """Stop servers, all at the same time."""
    for each in servers:
        each.ask_to_stop()
    for each in servers:
        each.stop()


def _check_port(server: Server) -> None:
    with socket.socket() as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # as servers do, after one that has just stopped
        try:
            probe.bind((HOST, server.port))
        except OSError as error:
            raise LocalServerError(
                f"port {server.port} is not free for the server {server.name!r} "
                f"({error.strerror}); "
                "stop the other server, or choose another port: --port "
                f"{server.name}={server.port + 1}"
            ) from None


_HEAD = f"""\
# Made by `kaosmem devstack compose`. `docker compose up --wait` starts these servers.
# Put {PASSWORD_VARIABLE}=<8 or more letters and digits> into a file .env beside this one.
# Then these variables lead to them:
"""


def compose(servers: Sequence[Server]) -> str:
    """Return the servers as a compose file, with the ports and accounts of the local ones.

    The password is a variable. Raises MissingExtraError.

    >>> from kaosmem.devstack.servers import Redis
    >>> print(compose([Redis(password="not-a-secret")]).splitlines()[-1])
      redis: {}
    """
    try:
        import yaml
    except ImportError:
        raise MissingExtraError(
            "a compose file needs the extra 'devstack': pip install 'kaosmem[devstack]'"
        ) from None

    class Dumper(yaml.SafeDumper):  # type: ignore[misc]
        pass

    def text(dumper: yaml.SafeDumper, value: str) -> Any:
        style = "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    configs = {}
    variables = ""
    for server in servers:
        for name, content in server.configs().items():
            configs[name] = {"content": content}
        for name, value in server.environment.items():
            variables += f"#   {name}={value.replace(server.password, f'${PASSWORD_VARIABLE}')}\n"
    file = {
        "name": "kaosmem",
        "services": {server.name: server.service() for server in servers},
        "configs": configs,
        "volumes": {server.name: {} for server in servers},
    }
    return _HEAD + variables + str(yaml.dump(file, Dumper=Dumper, sort_keys=False, width=120))
