"""What tests of code that uses kaosmem need: checkers of what providers ask of messages."""

from kaosmem.testing.messages import MessageRuleError, check_anthropic_messages, check_openai_messages

__all__ = ["MessageRuleError", "check_anthropic_messages", "check_openai_messages"]
