"""A program of a user with Amazon Bedrock. It is checked as `typed_program.py` is, with the types of boto3's stubs."""

from __future__ import annotations

from mypy_boto3_bedrock_runtime import BedrockRuntimeClient
from mypy_boto3_bedrock_runtime.type_defs import MessageTypeDef

from kaosmem import SyncSessionMemory


def converse(client: BedrockRuntimeClient, memory: SyncSessionMemory) -> None:
    turns: list[MessageTypeDef] = [{"role": "user", "content": [{"text": "Hello"}]}]
    memory.sync_messages(turns, format="bedrock")
    context = memory.assemble_context(budget=1_000, format="bedrock")
    reply = client.converse(
        modelId="anthropic.claude-sonnet-5-5",
        system=[{"text": context.system}],
        messages=context.messages,
        toolConfig={"tools": memory.tools("bedrock")},
    )
    memory.add_message(reply, format="bedrock")
    for block in reply["output"]["message"]["content"]:
        if "toolUse" in block:
            call = block["toolUse"]
            memory.call_tool(call["name"], call["input"])
