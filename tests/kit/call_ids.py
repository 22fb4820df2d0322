"""Ids of calls, which are random: two answers to one question differ in them."""

from __future__ import annotations

import json
import re
from typing import Any

CALL_ID = re.compile(r"call_[0-9A-Za-z]{16}")


def numbered(value: Any) -> Any:
    """The JSON value with its random ids of calls as ``call 0``, ``call 1`` … by their first places."""
    text = json.dumps(value)
    places = {id: i for i, id in enumerate(dict.fromkeys(CALL_ID.findall(text)))}
    return json.loads(CALL_ID.sub(lambda found: f"call {places[found[0]]}", text))
