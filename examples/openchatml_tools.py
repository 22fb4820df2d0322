"""Two tools at once over POST /v1/openchatml: one is cancelled, one answers, and the transcript grows frame by frame.

python examples/openchatml_tools.py [URL of a server with these tools]
"""

import asyncio
import http.client
import json
import sys
import threading
from collections.abc import Sequence
from urllib.parse import urlsplit

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import Sampling, ScriptedEngine
from antiphon.formats.openchatml import EventReader, TranscriptEnvelope, Writer, envelope_of, read, validate
from antiphon.formats.template import template_format
from antiphon.generation import Model
from antiphon.http.server.server import Server
from antiphon.tokens import ByteTokenizer, Control, encode_pieces
from antiphon.tools import FunctionToolSet, Toolbox

ASKED = """version: "2.2"
generation_settings: {builtin_tools: [weather, wait]}
<|start|>user<|message|>Wait an hour, and tell me the weather in Rome.<|end|>
"""


def converse(address: str, transcript: str) -> str:
    """The transcript with the model's turns behind it, which is valid after each frame."""
    connection, reader = http.client.HTTPConnection(address), EventReader()
    writer = Writer(TranscriptEnvelope(envelope_of(read(transcript)).header))
    connection.request("POST", "/v1/openchatml", transcript, {"accept": "text/event-stream"})
    waits = ""
    for line in connection.getresponse():
        if not line.startswith(b"data: "):
            continue
        event = json.loads(line[6:])
        print(event["type"], *(event[key] for key in ("recipient", "delta", "reason", "name") if key in event))
        if event["type"] == "tool.call" and event["recipient"] == "functions.wait":
            waits = event["call_id"]
        if event["type"] == "tool.reply" and event["name"] == "functions.weather":
            cancel(address, event["message_id"], waits)
        for message in reader.feed(event):
            transcript += writer.write(message).removeprefix("\n") + "\n"
            assert all(finding.warning for finding in validate(transcript))
    connection.close()
    return transcript


def cancel(address: str, message_id: str, call_id: str) -> None:
    """The other call goes on."""
    connection = http.client.HTTPConnection(address)
    body = json.dumps({"call_id": call_id, "reason": "nobody waits so long"})
    connection.request("POST", f"/v1/openchatml/{message_id}/cancel", body, {"content-type": "application/json"})
    assert connection.getresponse().status == 200
    connection.close()


# What follows is a server whose model plays a script; any other that serves both tools will do.

CALL, UNCALL, START, END = map(Control, ("<tool_call>", "</tool_call>", "<|im_start|>", "<|im_end|>"))
TOKENIZER = ByteTokenizer([CALL, UNCALL, START, END])
CALLS = ['{"name": "wait", "arguments": {"seconds": 3600}}', '{"name": "weather", "arguments": {"city": "Rome"}}']


def script(prompt: Sequence[int], sampling: Sampling, choice: int) -> list[int]:
    """Both calls, and the answer once the prompt has a result."""
    if b"It rains" in bytes(id for id in prompt if id < 256):
        return encode_pieces(["It rains in Rome, and I do not wait for an hour.", END], TOKENIZER)
    return encode_pieces([*(piece for made in CALLS for piece in (CALL, made, UNCALL)), END], TOKENIZER)


async def wait(seconds: int) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "Over."


def weather(city: str) -> str:
    """The weather of a city."""
    return f"It rains in {city}."


def main() -> None:
    if len(sys.argv) > 1:
        print(converse(urlsplit(sys.argv[1]).netloc, ASKED))
        return
    format = template_format("qwen2d5", TOKENIZER.controls)
    model = Model(name="parrot", engine=ScriptedEngine(script, chunk=8), tokenizer=TOKENIZER, format=format)
    app = create_app(StaticCatalog({"parrot": model}), tools=Toolbox([FunctionToolSet([wait, weather])]))
    ready = threading.Event()
    server = Server(app, on_ready=lambda url: ready.set())
    thread = threading.Thread(target=server.run)
    thread.start()
    ready.wait()
    try:
        print(converse(urlsplit(server.url).netloc, ASKED))
    finally:
        server.should_exit = True
        thread.join()


if __name__ == "__main__":
    main()
