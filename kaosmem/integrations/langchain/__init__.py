"""LangChain and LangGraph 1.x: a middleware for agents of `create_agent`, and a `BaseStore`."""

from kaosmem.integrations.langchain.middleware import KaosmemMiddleware as KaosmemMiddleware
from kaosmem.integrations.langchain.store import KaosmemStore as KaosmemStore
