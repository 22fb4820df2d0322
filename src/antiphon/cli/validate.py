"""``antiphon validate``: what is wrong with an OpenChatML transcript of any length."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from antiphon.formats.openchatml import Finding, finding_to_json, validate

from .options import JsonOption
from .streams import chunks


class Profile(StrEnum):
    HARMONY = "harmony"


def command(
    file: Annotated[Path, typer.Argument(help="An OpenChatML transcript; - reads standard input.")],
    profile: Annotated[Profile | None, typer.Option(help="Check more: the rules of HIP-1.")] = None,
    fragment: Annotated[bool, typer.Option("--fragment", help="The YAML header may lack.")] = False,
    json: JsonOption = False,
) -> None:
    """Check a transcript. Prints code, line:column and hint of each error; exit code 1 when there are any."""
    findings = validate(chunks(file), fragment=fragment, harmony=profile is Profile.HARMONY)
    errors = print_as_json(findings) if json else print_as_text(findings, str(file))
    if errors:
        raise typer.Exit(1)


def print_as_text(findings: Iterable[Finding], name: str) -> int:
    """One line a finding, its hint below; the number of errors."""
    errors = 0
    for finding in findings:
        errors += not finding.warning
        grade = "  warning:" if finding.warning else ""
        print(f"{finding.position}  {finding.code}{grade}  {finding.message}")
        if finding.hint:
            print(f"      {finding.hint}")
    print(f"{name}: {errors} error{'s' if errors != 1 else ''}" if errors else f"{name}: valid")
    return errors


def print_as_json(findings: Iterable[Finding]) -> int:
    """``{"errors": […], "valid": bool}``, each error as it is found, so that there may be any number of them."""
    errors = 0
    print('{"errors": [', end="")
    for finding in findings:
        if not finding.warning:
            print("," if errors else "", jsonlib.dumps(finding_to_json(finding)), sep="\n", end="")
            errors += 1
    print(f'{chr(10) if errors else ""}], "valid": {jsonlib.dumps(errors == 0)}}}')
    return errors
