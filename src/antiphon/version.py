"""The version of the package: everything that shows it reads it here."""

__version__ = "0.2.0"
