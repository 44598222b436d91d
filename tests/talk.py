"""Conversations whose texts are given."""


def talk(memory, texts):
    """Add texts to the messages of a session, in turn of a user and of an assistant."""
    for number, text in enumerate(texts):
        memory.add("messages", text, role=("user", "assistant")[number % 2])
