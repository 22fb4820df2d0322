"""The built-in python tool, in a sandbox or not at all."""

from .interpreter import Cell, Interpreter, SandboxLimits
from .sandbox import Bubblewrap, PoolLimits, PythonTool, installed_bubblewraps

__all__ = ["Bubblewrap", "Cell", "Interpreter", "PoolLimits", "PythonTool", "SandboxLimits", "installed_bubblewraps"]
