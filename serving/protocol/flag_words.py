"""vLLM's refusals speak to whoever typed its command line; a tenant reads here what can be done about it. Pure."""

from __future__ import annotations

import re
from typing import Final

_FLAG: Final = re.compile(r"--([a-z][a-z0-9]*(?:-[a-z0-9]+)+)\b")
_TOOLS: Final = "tool-call-parser"


def plain(message: str) -> str:
    """The message with vLLM's flags named as options of the engine, and who can set them; unchanged when it names none."""
    flags = _FLAG.findall(message)
    if not flags:
        return message
    told = _FLAG.sub(lambda found: f"`{found[1].replace('-', '_')}`", message).rstrip(". ")
    advice = 'Without it, send `tool_choice`: "none", or no `tools`. ' if _TOOLS in flags else ""
    return (
        f"{told}. {advice}The operator of this service sets it for the engine, in the catalog under `engines[].vllm`."
    )
