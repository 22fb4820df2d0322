"""The dialects that this server speaks beside OpenAI's."""

from dataclasses import replace

from antiphon.wire.dialect import DOCUMENTED, OPENAI, Dialect

from .tables import EndpointMode, databricks, lmdeploy, mindie


def configured_dialects(
    *,
    strict: bool = False,
    max_seq_len: int = 2560,
    max_iter_times: int = 512,
    endpoint_mode: EndpointMode = "any",
    endpoint_streams: bool | None = None,
) -> dict[str, Dialect]:
    """Every dialect by its name, configured; ``strict``: each to the letter of its document."""
    dialects = (
        replace(OPENAI, strict=strict, defaults=DOCUMENTED if strict else OPENAI.defaults),
        databricks(strict=strict, mode=endpoint_mode, streams=endpoint_streams),
        mindie(strict=strict, max_seq_len=max_seq_len, max_iter_times=max_iter_times),
        lmdeploy(strict=strict),
    )
    return {dialect.name: dialect for dialect in dialects}


DIALECTS: tuple[Dialect, ...] = tuple(configured_dialects().values())
"""Each as it is without configuration."""

__all__ = ["DIALECTS", "databricks", "lmdeploy", "mindie", "configured_dialects"]
