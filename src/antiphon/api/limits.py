"""What one server bears. It is a table of the configuration, which is why it stands in the catalog."""

from antiphon.catalog.server import Limits

__all__ = ["Limits"]
