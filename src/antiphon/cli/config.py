"""``antiphon config``: every setting, its value, and where that came from."""

from __future__ import annotations

from .options import ConfigOption, JsonOption, configure, print_json, print_table


def command(config: ConfigOption = None, json: JsonOption = False) -> None:
    """Show the configuration: defaults, then the file, then the environment (ANTIPHON_…), then flags."""
    loaded = configure(config)
    if json:
        rows = [{"key": key, "value": value, "origin": origin} for key, value, origin in loaded.rows()]
        print_json({"file": str(loaded.file), "settings": rows})
        return
    print_table(("key", "value", "from"), [(key, shown(value), origin) for key, value, origin in loaded.rows()])
    if not loaded.file.is_file():
        print(f"(no configuration file; {loaded.file} would be read)")


def shown(value: object) -> str:
    return "" if value is None else ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
