"""The document that describes the API."""
