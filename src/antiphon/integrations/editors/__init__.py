"""What editors and documentation tools use: a lexer for Pygments, and the language server of OpenChatML."""
