"""Work on programs of clients, each piece in its own process: templates, schemas, patterns, grammars, images, texts.

`Isolation` starts one child of the server when the first piece comes (`.forkserver`), which imports the code of ours
that is needed and runs none of a client's. Of it a fresh process is forked for every piece, with limits of processor
time and memory that the kernel keeps, and is gone afterwards with all that the piece did. It has no socket, no file and
no secret of the server. What goes over are bytes, never pickles.

Process pools of the standard library, pebble and loky send pickles, keep a process for the next piece, and none sets
limits; here a piece and its process are one.
"""

from typing import TYPE_CHECKING

from antiphon.exports import exports

if TYPE_CHECKING:
    from .isolation import Isolation
    from .task import Task
else:
    __getattr__ = exports(__name__, {"isolation": "Isolation", "task": "Task"})

__all__ = ["Isolation", "Task"]
