"""The check of any context: exact, within its budget, and as its provider takes it."""

from kaosmem.testing import check_anthropic_messages, check_openai_messages
from tests.contexts import counted
from tests.formats.provider_rules import CHECKS


def check_context(context, counter=None):
    """Check that a context counts what it says, within its budget, and that its provider takes it."""
    assert counted(context, counter) == context.used <= context.budget
    if context.format == "openai":
        check_openai_messages(context.messages)
    elif context.format == "anthropic":
        check_anthropic_messages(context.messages, context.system)
    elif context.format in CHECKS:
        CHECKS[context.format](context.messages, context.rendered.system or "")
