"""The documentation as a site, under ``/docs`` of a running server."""
