"""The playground: a page for browsers, as static files of the package, and its routes."""
