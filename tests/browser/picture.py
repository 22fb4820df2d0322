"""``make docs-picture``: what the playground looks like at work, as docs/picture.webp: ``picture.py CHROMIUM``.

The program serves the default model, a real browser asks it; the frames are what it showed. docs/picture-still.webp is
one of them, for those who want nothing to move. The picture moves once, for less than five seconds.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from kit.program import environment, serving

SCRIPT = Path(__file__).with_name("picture.mjs")
DOCS = Path(__file__).parents[2] / "docs"
LARGEST = 500_000


def main(chromium: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        home, frames = Path(folder, "home"), Path(folder, "frames")
        home.mkdir()
        subprocess.run([sys.executable, "-m", "antiphon", "pull", "smollm2"], check=True, env=environment(home))
        with serving(home) as (_, url):
            subprocess.run(["node", str(SCRIPT), chromium, str(frames), url], check=True)
        size = written(sorted(frames.glob("*.png")))
    print(f"docs/picture.webp: {size} bytes")
    return 0 if size < LARGEST else 1


def written(frames: list[Path]) -> int:
    """Writes both files; the size of the moving one, in bytes."""
    images = [Image.open(frame).convert("RGB") for frame in frames]
    times = [int(frame.stem.partition("-")[2]) for frame in frames]
    target = DOCS / "picture.webp"
    images[0].save(target, save_all=True, append_images=images[1:], duration=times, loop=1, quality=50, method=6)
    answered = len(images) - 4  # then three views
    images[answered + 1].save(DOCS / "picture-still.webp", quality=80, method=6)
    return target.stat().st_size


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
