"""The gallery's code makes the gallery's figures."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_the_page_makes_its_figures(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("pyarrow")
    made = subprocess.run([sys.executable, ROOT / "scripts" / "gallery", tmp_path], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    figures = sorted(path.name for path in tmp_path.glob("*.svg"))
    assert figures == sorted(path.name for path in (ROOT / "docs" / "images" / "gallery").glob("*.svg"))
    for path in tmp_path.glob("*.svg"):
        text = path.read_text()
        assert text.startswith("<?xml") and text.count("<path") > 10
