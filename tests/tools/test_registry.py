"""Tools of other packages: by name, with an argument, from an entry point or handed in."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.catalog.toolbox import ToolSettings, open_toolbox
from antiphon.errors import ConfigError
from antiphon.tools import FunctionTool, FunctionToolSet, ToolCall, ToolFactory

MODULE = '''
from antiphon.tools import FunctionTool, FunctionToolSet


def greeter(argument):
    def greet(name: str) -> str:
        """Greets somebody."""
        return f"{argument or 'Hello'}, {name}!"

    def leave() -> str:
        """Says farewell."""
        return "Bye!"

    return FunctionToolSet([greet, leave])


def single(argument):
    def ping() -> str:
        """Answers."""
        return "pong"

    return FunctionTool(ping)


def nothing(argument):
    return 7


NUMBER = 7
'''
ENTRIES = """
[antiphon.tools]
greeter = outside_tools:greeter
single = outside_tools:single
nothing = outside_tools:nothing
number = outside_tools:NUMBER
absent = outside_tools:missing
browser = outside_tools:single
"""


@pytest.fixture
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of somebody else's, installed: its module, and the record that names its entry points."""
    record = tmp_path / "outside_tools-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: outside-tools\nVersion: 1.0\n")
    (record / "entry_points.txt").write_text(ENTRIES)
    (tmp_path / "outside_tools.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))


async def answer(name: str, recipient: str, body: str, tools: dict[str, ToolFactory] | None = None) -> str:
    async with open_toolbox(ToolSettings(names=(name,)), tools=tools or {}) as toolbox:
        result = await toolbox.functions.router.call(ToolCall(call_id="c", recipient=recipient, body=body))
        return result.text(envelope=False)


async def refusal(name: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        await open_toolbox(ToolSettings(names=(name,))).__aenter__()
    return caught.value


@pytest.mark.usefixtures("_package")
async def test_a_package_s_tools_are_open_by_their_name() -> None:
    async with open_toolbox(ToolSettings(names=("greeter", "single"))) as toolbox:
        assert {spec.name: spec.description for spec in toolbox.specs} == {
            "greet": "Greets somebody.",
            "leave": "Says farewell.",
            "ping": "Answers.",
        }
    assert await answer("greeter", "functions.greet", '{"name": "Ada"}') == "Hello, Ada!"
    assert await answer("single", "functions.ping", "{}") == "pong"


@pytest.mark.usefixtures("_package")
async def test_what_follows_the_name_is_the_factory_s_argument() -> None:
    assert await answer("greeter:Salve: tu", "functions.greet", '{"name": "Ada"}') == "Salve: tu, Ada!"


@pytest.mark.usefixtures("_package")
async def test_tools_that_are_handed_in_count_before_a_package_s() -> None:
    def greet(name: str) -> str:
        return f"Not {name}"

    mine: dict[str, ToolFactory] = {
        "greeter": lambda argument: FunctionToolSet([greet]),
        "other": lambda argument: FunctionTool(greet),
    }
    assert await answer("greeter", "functions.greet", '{"name": "Ada"}', mine) == "Not Ada"
    assert await answer("other", "functions.greet", '{"name": "Ada"}', mine) == "Not Ada"


@pytest.mark.usefixtures("_package")
async def test_a_built_in_s_name_is_nobody_else_s() -> None:
    async with open_toolbox(ToolSettings(names=("browser",))) as toolbox:
        assert "browser.search" in toolbox.router.recipients


@pytest.mark.usefixtures("_package")
async def test_a_name_that_nobody_knows_is_refused_with_near_ones() -> None:
    error = await refusal("greter:x")
    assert error.code == "tool_unknown"
    assert "greeter" in str(error)


@pytest.mark.usefixtures("_package")
@pytest.mark.parametrize(
    ("name", "reason"), [("nothing", "not a ToolSet"), ("number", "no function"), ("absent", "cannot be imported")]
)
async def test_a_package_that_publishes_no_tools_is_named(name: str, reason: str) -> None:
    error = await refusal(name)
    assert error.code == "plugin_unusable"
    assert name in str(error)
    assert reason in str(error)
