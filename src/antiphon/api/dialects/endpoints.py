"""Models as the serving endpoints of Databricks' management API: what its clients read before they ask one."""

from __future__ import annotations

from typing import Literal

import msgspec

Task = Literal["llm/v1/chat", "llm/v1/embeddings"]


class EndpointState(msgspec.Struct, frozen=True):
    """An endpoint that is listed takes requests: its model is loaded when the first comes."""

    ready: Literal["READY"] = "READY"
    config_update: Literal["NOT_UPDATING"] = "NOT_UPDATING"


class ServedEntity(msgspec.Struct, frozen=True):
    name: str
    entity_name: str


class EndpointConfig(msgspec.Struct, frozen=True):
    served_entities: list[ServedEntity]


class ServingEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One model. Times are Unix times in milliseconds."""

    name: str
    id: str
    creator: str = "antiphon"
    creation_timestamp: int
    last_updated_timestamp: int
    state: EndpointState = EndpointState()
    config: EndpointConfig
    task: Task
    permission_level: Literal["CAN_QUERY"] = "CAN_QUERY"


class ServingEndpointList(msgspec.Struct, frozen=True):
    endpoints: list[ServingEndpoint]


def serving_endpoint(name: str, task: Task, *, created: int) -> ServingEndpoint:
    """The endpoint of the model ``name``, made at the Unix time ``created`` in seconds."""
    return ServingEndpoint(
        name=name,
        id=name,
        creation_timestamp=created * 1000,
        last_updated_timestamp=created * 1000,
        config=EndpointConfig([ServedEntity(name, name)]),
        task=task,
    )
