"""Grammars that clients bring along, as texts: llama.cpp's GBNF (and EBNF written like it) and Lark."""
