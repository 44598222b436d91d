"""Local servers for the stores: started from wheels, or described for Docker Compose. One definition serves both."""

from kaosmem.devstack.running import LocalServer, compose, started
from kaosmem.devstack.servers import PASSWORD_VARIABLE, S3, SERVERS, Postgres, Redis, Server, free_port

__all__ = [
    "PASSWORD_VARIABLE",
    "S3",
    "SERVERS",
    "LocalServer",
    "Postgres",
    "Redis",
    "Server",
    "compose",
    "free_port",
    "started",
]
