"""A server that runs already as an engine of the catalog: reached, checked, and connected anew after a loss."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from antiphon.engines import Engine, EngineInfo, EngineProxy, EngineSettings, ModelSpec
from antiphon.errors import UNREACHABLE, EngineError, EngineLostError, ModelError, OverloadedError
from antiphon.tokens import Tokenizer

# An engine on a server that may be restarted: what answers there after a loss may be another model.


class ReconnectingEngine(EngineProxy):
    """``lost`` from the first time that the server did not answer, or broke off.

    The catalog then retires this engine and connects a new one, which queries the server anew.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._users = 0
        self._retired = False
        self.lost = False

    @property
    def info(self) -> EngineInfo:
        return self._engine.info

    async def retire(self) -> None:
        """Closes the connections when the last reply has ended; nobody gets this engine any more."""
        self._retired = True
        if self._users == 0:
            await self.aclose()

    async def aclose(self) -> None:
        await self._engine.aclose()

    @asynccontextmanager
    async def using(self) -> AsyncIterator[Engine]:
        if self._retired and self._users == 0:
            raise OverloadedError("the engine's server was lost", code=UNREACHABLE, hint="Try again: it is reopened.")
        self._users += 1
        try:
            yield self._engine
        except EngineLostError:
            self.lost = True
            raise
        except OverloadedError as error:
            self.lost = self.lost or error.code == UNREACHABLE
            raise
        finally:
            self._users -= 1
            if self._retired and self._users == 0:
                await self.aclose()


log = logging.getLogger("antiphon.catalog")

SAMPLE = "Straße, naïve café: 漢字かな, Привет!\n\n\tdef f(x): return x**2 + 10_000  # ¿qué?"
"""Other vocabularies cut this text otherwise."""

RETRY_SECONDS = 5.0


async def connect(settings: EngineSettings, model: ModelSpec) -> ReconnectingEngine:
    """The engine, connected: it knows the server's model and has its vocabulary.

    Errors: `ModelError` for a tokenizer that is not the server's, `ConfigError` for a key that is not where it should
    be, `OverloadedError` (``engine_unreachable``) when nobody answers there.
    """
    try:
        engine = await settings.open(model)
    except OverloadedError as error:
        log.warning("%s: no answer from %s", model.name, settings.address)
        raise OverloadedError(
            f"the server that runs {model.name!r} cannot be reached",
            code=UNREACHABLE,
            retry_after=RETRY_SECONDS,
            hint="The next request tries it again. For its owner: is it up, and is "
            f"models.{model.name}.engine.url right?",
        ) from error
    except EngineError as error:
        log.warning("%s: %s says: %s", model.name, settings.address, error)
        raise
    try:
        await check_vocabulary(model.name, engine, model.tokenizer)
    except BaseException:
        await engine.aclose()
        raise
    return ReconnectingEngine(engine)


async def check_vocabulary(name: str, engine: Engine, tokenizer: Tokenizer) -> None:
    """Raises `ModelError` when the server cuts a text otherwise than the tokenizer here: ids would mean other words."""
    server_ids = await engine.tokenize(SAMPLE)
    if server_ids is not None and server_ids != await asyncio.to_thread(tokenizer.encode, SAMPLE):
        raise ModelError(
            f"the tokenizer of {name!r} is not the one of the server that runs it",
            code="tokenizer_mismatch",
            hint=f"models.{name}.tokenizer must be of the same model.",
        )
