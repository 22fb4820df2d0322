"""`antiphon serve --workers N`: one port, several processes of the same program, one engine process for all.

The *supervisor* binds the port and hands each connection to the worker that has the fewest. What several processes can
only have together is there: the embedded engines with the queue before their slots, the queue of requests, the sums of
the metrics; what is stored, and the limits of keys, they share as servers of one store do. A *worker* is a whole server
otherwise. The two speak over one socket (`peer`): either side may enter a context of the other's, and a side that dies
has left all of its own.
"""
