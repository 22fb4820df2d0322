"""The built-in python tool, in a sandbox or not at all."""

from .sandbox import Bubblewrap, Cell, Interpreter, SandboxLimits, installed_bubblewraps
from .tool import PythonTool

__all__ = ["Bubblewrap", "Cell", "Interpreter", "PythonTool", "SandboxLimits", "installed_bubblewraps"]
