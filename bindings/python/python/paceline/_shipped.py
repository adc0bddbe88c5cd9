"""Scenarios that come with the package."""

from __future__ import annotations

import difflib
import os

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scenarios")


def shipped(name: str) -> str:
    """The file of a scenario that comes with the package: ``paceline.run(paceline.shipped("cellular"))``, ``shipped("wifi/w1")``.

    Raises ValueError, with the known names, for an unknown name.
    """
    path = os.path.join(FOLDER, *f"{name}.toml".split("/"))
    if os.path.isfile(path):
        return path
    names = sorted(
        os.path.relpath(os.path.join(folder, file), FOLDER).replace(os.sep, "/").removesuffix(".toml")
        for folder, _, files in os.walk(FOLDER)
        for file in files
        if file.endswith(".toml")
    )
    if not names:
        raise ValueError(f"shipped: this build of the package has no scenarios ({FOLDER}); make wheel builds one that has")
    near = difflib.get_close_matches(name, names, 3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(names)}"
    raise ValueError(f"shipped: there is no scenario '{name}'; {hint}")
