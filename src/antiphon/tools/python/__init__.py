"""The built-in python tool, in a sandbox or not at all."""

from .cell import Cell, SandboxLimits
from .interpreter import Interpreter
from .pool import PoolLimits
from .sandbox import Bubblewrap, installed_bubblewraps
from .tool import PythonTool

__all__ = ["Bubblewrap", "Cell", "Interpreter", "PoolLimits", "PythonTool", "SandboxLimits", "installed_bubblewraps"]
