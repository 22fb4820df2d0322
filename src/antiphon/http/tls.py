"""A certificate and its key, checked before a server starts with them."""

from __future__ import annotations

import ssl

import msgspec

from antiphon.errors import ConfigError


class Certificate(msgspec.Struct, frozen=True):
    """Paths of PEM files: the chain, the server's own certificate first, and the key."""

    chain: str
    key: str

    def load(self, context: ssl.SSLContext) -> None:
        """Connections of ``context`` get it from now on. Raises `ConfigError` (``tls``) for what cannot be used."""
        try:
            context.load_cert_chain(self.chain, self.key, password="")
        except (OSError, ssl.SSLError) as error:
            reason = error.strerror or error.reason if isinstance(error, ssl.SSLError) else error.strerror
            raise ConfigError(
                f"the certificate {self.chain} and the key {self.key} cannot be used: {reason}",
                code="tls",
                hint="Both must be PEM files that belong together, and the key not be encrypted.",
            ) from None


def certificate(chain: str, key: str) -> Certificate | None:
    """The pair, checked; None when neither is given. Raises `ConfigError` (``tls``)."""
    if not chain and not key:
        return None
    if not chain or not key:
        missing = "server.tls_key" if chain else "server.tls_cert"
        raise ConfigError(f"TLS needs a certificate and its key, and {missing} is not given", code="tls")
    pair = Certificate(chain, key)
    pair.load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    return pair
