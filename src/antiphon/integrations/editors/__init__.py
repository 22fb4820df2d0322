"""Tools for editors and documentation: a lexer for Pygments, and the language server of OpenChatML."""
