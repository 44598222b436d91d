"""Local servers for the stores: started from wheels, or described for Docker Compose.

One definition serves both.
"""

from kaosmem.devstack.running import LocalServer, compose, started
from kaosmem.devstack.servers import S3, Postgres, Redis, free_port

__all__ = ["S3", "LocalServer", "Postgres", "Redis", "compose", "free_port", "started"]
