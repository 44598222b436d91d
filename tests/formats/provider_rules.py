"""The rules of the Responses API, Gemini and Converse that a type does not say, and the SDKs' own types."""

import re
from functools import cache

from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter

from tests.lazily import Lazy

botocore_session = Lazy("botocore.session")
botocore_validate = Lazy("botocore.validate")
types = Lazy("google.genai.types")

SERVED = ("web_search_call", "mcp_call")


@cache
def responses_items():
    return TypeAdapter(list[ResponseInputItemParam])


@cache
def converse_validator():
    model = botocore_session.get_session().get_service_model("bedrock-runtime")
    return model.operation_model("Converse").input_shape


def check_responses(items):
    """Each call is answered once, after it, in the form of its kind; reasoning is followed by its item.

    Source: guides "Function calling" and "Reasoning", and the errors "No tool output found for
    function call" and "Item of type 'reasoning' was provided without its required following item".
    """
    responses_items().validate_python(items)
    due = {}
    for item, following in zip(items, [*items[1:], {}], strict=False):
        kind = item.get("type", "message")
        if kind == "reasoning":
            assert item["encrypted_content"]
            assert following.get("type", "message") not in ("function_call_output", "")
            assert following.get("role") != "user" and following
        elif kind == "message":
            assert item["role"] in ("user", "assistant", "system")
            assert isinstance(item["content"], list) or item["content"].strip()
            assert not due or item["role"] != "user"
        elif kind.endswith("_call_output"):
            assert due.pop(item["call_id"]) == kind.removesuffix("_output")
        elif kind.endswith("_call") and kind not in SERVED:
            assert 1 <= len(item["call_id"]) <= 64
            due[item["call_id"]] = kind
    assert not due


def check_gemini(contents, system=""):
    """Roles alternate from the user's; each batch of calls is answered in the next content, by name.

    Source: Gemini API, "Function calling", and the errors "function call turn comes immediately
    after a user turn" and "number of function response parts is equal to the number of function
    call parts".
    """
    due = []
    for position, content in enumerate(contents):
        types.Content.model_validate(content)
        assert content["role"] == ("model" if position % 2 else "user")
        parts = content["parts"]
        assert parts
        answered = [
            part["functionResponse"]["name"] for part in parts if "functionResponse" in part
        ]
        assert answered == due
        calls = [part for part in parts if "functionCall" in part]
        assert not calls or calls[0]["thoughtSignature"]
        due = [part["functionCall"]["name"] for part in calls]
        for name in due:
            assert re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}", name)
        for part in parts:
            assert part.get("text", "x").strip() or "thoughtSignature" in part
    assert not due


def check_bedrock(messages, system=""):
    """Roles alternate from the user's; each batch of calls is answered first in the next message.

    Source: API reference, Converse, and the error "A conversation must alternate between user and
    assistant roles".
    """
    asked = {"modelId": "m", "messages": list(messages)}
    if system:
        asked["system"] = [{"text": system}]
    report = botocore_validate.ParamValidator().validate(asked, converse_validator())
    assert not report.has_errors(), report.generate_report()
    due = []
    seen = set()
    for position, message in enumerate(messages):
        assert message["role"] == ("assistant" if position % 2 else "user")
        content = message["content"]
        answered = [block["toolResult"]["toolUseId"] for block in content if "toolResult" in block]
        assert sorted(answered) == sorted(due)
        assert all("toolResult" in block for block in content[: len(answered)])
        due = [block["toolUse"]["toolUseId"] for block in content if "toolUse" in block]
        assert not seen & set(due)
        seen.update(due)
        for block in content:
            assert block.get("text", "x").strip()
            if "toolUse" in block:
                assert re.fullmatch(r"[a-zA-Z0-9_.:-]{1,64}", block["toolUse"]["toolUseId"])
                assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", block["toolUse"]["name"])
        assert "reasoningContent" not in content[-1]
    assert not due


CHECKS = {
    "bedrock": check_bedrock,
    "gemini": check_gemini,
    "openai-responses": lambda items, system="": check_responses(items),
}
