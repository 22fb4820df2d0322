"""The built-in python tool, in a sandbox or not at all."""

from .cell import Cell, SandboxLimits
from .interpreter import Interpreter
from .sandbox import Bubblewrap, installed_bubblewraps
from .tool import PoolLimits, PythonTool

__all__ = ["Bubblewrap", "Cell", "Interpreter", "PoolLimits", "PythonTool", "SandboxLimits", "installed_bubblewraps"]
