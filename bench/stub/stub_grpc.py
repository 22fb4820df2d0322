"""The same engine over vLLM's gRPC, for SMG: `python stub_grpc.py FOLDER`, in its environment, prints its port."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import uvloop
from says import Speaker
from smg_grpc_proto.generated import vllm_engine_pb2 as messages
from smg_grpc_proto.generated import vllm_engine_pb2_grpc as services
from tokenizers import Tokenizer


class Engine(services.VllmEngineServicer):  # type: ignore[misc]  # generated, without types
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._speaker = Speaker(Tokenizer.from_file(str(folder / "tokenizer.json")))

    async def Generate(self, request: Any, context: Any) -> AsyncIterator[Any]:
        sampling, loop = request.sampling_params, asyncio.get_running_loop()
        says = self._speaker.says(sampling.seed, sampling.max_tokens or 16)
        prompt, reason = len(request.tokenized.input_ids), "stop" if says.stops else "length"
        next = loop.time()
        for number, ids in enumerate(says.messages() if request.stream else (), 1):
            if says.pace:
                next += says.pace
                await asyncio.sleep(next - loop.time())
            chunk = messages.GenerateStreamChunk(token_ids=ids, prompt_tokens=prompt, completion_tokens=number)
            yield messages.GenerateResponse(chunk=chunk)
        done = messages.GenerateComplete(
            output_ids=says.ids, finish_reason=reason, prompt_tokens=prompt, completion_tokens=len(says.ids)
        )
        yield messages.GenerateResponse(complete=done)

    async def HealthCheck(self, request: Any, context: Any) -> Any:
        return messages.HealthCheckResponse(healthy=True, message="ok")

    async def Abort(self, request: Any, context: Any) -> Any:
        return messages.AbortResponse()

    async def GetModelInfo(self, request: Any, context: Any) -> Any:
        return messages.GetModelInfoResponse(
            model_path=str(self._folder),
            served_model_name="m",
            is_generation=True,
            max_context_length=65536,
            vocab_size=49152,
        )

    async def GetServerInfo(self, request: Any, context: Any) -> Any:
        return messages.GetServerInfoResponse()


async def main(folder: Path) -> None:
    server = grpc.aio.server()
    services.add_VllmEngineServicer_to_server(Engine(folder), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1])))
