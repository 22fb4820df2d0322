"""Why a server over HTTP did not answer, and what to do about it: the status, never a header or a body."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping

import msgspec

MCP_UNREACHABLE = "mcp_unreachable"
MCP_UNAUTHORIZED = "mcp_unauthorized"
_PARAMETER = re.compile(r'(?:^|[\s,])(error|scope)\s*=\s*(?:"([^"]*)"|([^\s,"]+))')
_SCOPE = re.compile(r"[A-Za-z0-9:/._+@=,~%#?&*-]{1,128}")
"""The characters of RFC 6749 §3.3 that mean nothing to a shell: the proposed command will be copied."""


class McpFault(msgspec.Struct, frozen=True):
    """Failure of a request. ``transient``: the same request may succeed later."""

    message: str
    hint: str = ""
    code: str = MCP_UNREACHABLE
    transient: bool = False

    def __str__(self) -> str:
        return f"{self.message}. {self.hint}".rstrip()


def fault_of_status(name: str, status: int, headers: Mapping[str, str], *, in_session: bool) -> McpFault:
    """The fault that a status of 400 or more is."""
    match status:
        case 401:
            return McpFault("it answered 401: it wants to be signed in to", sign_in(name), MCP_UNAUTHORIZED)
        case 403:
            challenge = challenged(headers.get("www-authenticate", ""))
            if challenge.get("error") != "insufficient_scope":
                return McpFault("it answered 403: this is not allowed", sign_in(name), MCP_UNAUTHORIZED)
            scopes = readable_scopes(challenge.get("scope", ""))
            more = f"it needs the scope {scopes!r}" if scopes else "it needs more scopes"
            return McpFault(f"it answered 403: {more}", sign_in(name, scopes), MCP_UNAUTHORIZED)
        case 404 if in_session:
            return McpFault("it answered 404: it ended the session", "The next call begins another.", transient=True)
        case 404 | 405:
            return McpFault(f"it answered {status}: no MCP server is at this address", "Check the url of its table.")
        case 429:
            return McpFault("it answered 429: too many requests", "Call again later.", transient=True)
    if status >= 500:
        return McpFault(f"it answered {status}: the server failed", "Its own log says why.", transient=True)
    return McpFault(f"it answered {status}", "Check the url and the headers of its table.")


def sign_in(name: str, scopes: str = "") -> str:
    """Says what the operator does to be allowed in."""
    return f"Run: antiphon mcp login {name}" + (f' --scope "{scopes}"' if scopes else "")


def challenged(header: str) -> dict[str, str]:
    """``error`` and ``scope`` of a WWW-Authenticate header."""
    return {match[1]: match[2] if match[2] is not None else match[3] for match in _PARAMETER.finditer(header[:8192])}


def readable_scopes(text: str) -> str:
    """The scopes of a server's text, at most 32, without what no scope has: the text goes to a terminal."""
    return " ".join([word for word in text.split() if _SCOPE.fullmatch(word)][:32])


def fault_of_error(name: str, error: BaseException) -> McpFault:
    """The fault that an error of the connection, or of signing in, is."""
    kinds = {type(each).__name__ for each in causes(error)}
    if type(error).__name__.startswith("OAuth"):
        hint = sign_in(name)
        if type(error).__name__ == "OAuthRegistrationError":  # Nobody can register there: the operator does it by hand.
            hint = "Register a client there, and name its clientId in the oauth of its table."
        return McpFault(f"signing in failed: {first_line(error)}", hint, MCP_UNAUTHORIZED)
    if any(isinstance(each, ssl.SSLError) for each in causes(error)):
        reason = next(str(each) for each in causes(error) if isinstance(each, ssl.SSLError))
        return McpFault(
            f"TLS failed: {reason[:200]}",
            "Check its certificate; SSL_CERT_FILE names the authorities that are trusted.",
        )
    if any(kind.endswith(("Timeout", "TimeoutError")) for kind in kinds):
        return McpFault("it did not answer in time", "Check that it runs, and call again.", transient=True)
    if "ConnectError" in kinds:
        return McpFault("it cannot be connected to", "Check that it runs, and the url of its table.", transient=True)
    leaf = next((each for each in causes(error) if not isinstance(each, BaseExceptionGroup)), error)
    if isinstance(leaf, OSError) and leaf.filename:
        what = f"its command {str(leaf.filename)!r} cannot be run: {leaf.strerror}"
        return McpFault(what, "Check the command of its table, and that PATH has it.")
    if isinstance(leaf, BrokenPipeError | ConnectionResetError) or first_line(leaf) == "Connection closed":
        hint = "Run its command by hand: it must go on, and speak MCP on its standard input and output."
        return McpFault("its process ended, or closed the connection", hint, transient=True)
    return McpFault(first_line(leaf) or type(leaf).__name__, transient=True)


def first_line(error: BaseException) -> str:
    """Gives the part of an error that may be shown: its further lines may quote an answer, and so a token."""
    line = str(error).partition("\n")[0][:300]
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line)


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error, those in its group, and what each came from."""
    waiting, seen = [error], set[int]()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        inner = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
        waiting.extend(one for one in (each.__cause__, each.__context__, *inner) if one is not None)
