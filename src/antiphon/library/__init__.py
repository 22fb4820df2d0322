"""The library's front door: open a model and talk to it, render, parse, convert, validate, serve by configuration.

`import antiphon` offers all of it by name; every part imports what it needs when it is first used.
"""
