"""The pages of reference, each printed from the code that it is about; only the built site has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from docs.reference_cli import cli_page
from docs.reference_configuration import configuration_page
from docs.reference_python import packages_page, python_page
from docs.reference_routes import routes_page

PAGES: Mapping[str, Callable[[], str]] = {
    "reference-cli.md": cli_page,
    "reference-configuration.md": configuration_page,
    "reference-packages.md": packages_page,
    "reference-python.md": python_page,
    "reference-routes.md": routes_page,
}
