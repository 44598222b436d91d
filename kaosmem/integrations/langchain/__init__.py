"""LangChain and LangGraph 1.x: a middleware for agents of `create_agent`, and a `BaseStore`."""

from kaosmem.integrations.langchain.middleware import KaosmemMiddleware
from kaosmem.integrations.langchain.store import STORE_SECTION, KaosmemStore

__all__ = ["STORE_SECTION", "KaosmemMiddleware", "KaosmemStore"]
