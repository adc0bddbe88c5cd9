"""Types say what runs: the keys of scenarios, the stub's words, and the guide's own code."""

from __future__ import annotations

import ast
import inspect
import os
import pathlib
import re
import subprocess
import sys
import textwrap
from typing import Any, get_type_hints

import paceline
import pytest
from paceline import _paceline

PACKAGE = pathlib.Path(paceline.__file__).parent
ROOT = pathlib.Path(__file__).parents[3]
STUB = pathlib.Path(__file__).parents[1] / "python" / "paceline" / "_paceline.pyi"


@pytest.mark.parametrize("table", ["Direction", "Link", "ContentNode", "Program", "Flow", "Cross", "Telemetry", "When"])
def test_typed_dicts_have_the_keys_of_scenarios(table: str) -> None:
    assert set(get_type_hints(getattr(paceline, table))) == set(_paceline.SCENARIO_KEYS[table])


def test_a_scenario_takes_the_keys_of_scenarios() -> None:
    taken = set(inspect.signature(paceline.Scenario.__init__).parameters) - {"self", "keys"}
    assert taken == set(_paceline.SCENARIO_KEYS["Scenario"])


def test_every_key_is_known(short: paceline.Scenario) -> None:
    for table, keys in _paceline.SCENARIO_KEYS.items():
        for key in keys:
            path = {"Scenario": key, "Direction": f"down.{key}", "Flow": f"flows.0.{key}", "Cross": f"cross.0.{key}"}.get(table)
            if path is None:
                continue
            try:
                paceline.run({**short, "cross": [{"rate": "1 Mbit/s"}], "flows": [{}], "seconds": 0.01}, set={path: {"no": "such"}})
            except paceline.ScenarioError as error:
                assert "unknown key" not in str(error) or "'no'" in str(error), (path, str(error))


def documented(stub: str) -> str:
    """The stub with the words of the compiled half: of classes, their fields, and functions."""
    lines = stub.splitlines()
    words: dict[int, str] = {}
    for node in ast.walk(ast.parse(stub)):
        if not isinstance(node, ast.ClassDef) or not hasattr(_paceline, node.name):
            continue
        compiled = getattr(_paceline, node.name)
        for method in node.body:
            if not isinstance(method, ast.FunctionDef) or [ast.unparse(one) for one in method.decorator_list] != ["property"]:
                continue
            meaning = inspect.getdoc(getattr(compiled, method.name, None))
            if meaning:
                words[method.lineno - 1] = meaning
    for line, meaning in sorted(words.items(), reverse=True):
        head = lines[line].removesuffix(" ...")
        text = " ".join(meaning.split())
        wrapped = textwrap.wrap(text, 120)
        if len(wrapped) == 1:
            body = [f'        """{text}"""']
        else:
            body = [f'        """{wrapped[0]}', *(f"        {more}" for more in wrapped[1:]), '        """']
        end = line + 1
        while end < len(lines) and lines[end].startswith("        "):
            end += 1
        lines[line:end] = [head, *body]
    return "\n".join(lines) + "\n"


def test_the_stub_says_what_help_says() -> None:
    stub = STUB.read_text()
    wanted = documented(stub)
    if os.environ.get("UPDATE"):
        STUB.write_text(wanted)
    assert stub == wanted, "UPDATE=1 writes it again"
    for name in ("Env", "Sent", "Ack", "Acked", "Loss", "Lost", "Timeout", "Restart", "Telemetry", "Hop", "RateSample"):
        fields = [field for field in vars(getattr(_paceline, name)) if not field.startswith("_")]
        for field in fields:
            assert inspect.getdoc(getattr(getattr(_paceline, name), field)), f"{name}.{field}"
            assert re.search(rf"class {name}:.*?def {field}\(self\)", stub, re.DOTALL), f"{name}.{field}"


def mypy(text: str, tmp_path: pathlib.Path) -> str:
    pytest.importorskip("mypy")
    file = tmp_path / "code.py"
    file.write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", sys.executable, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "MYPYPATH": ""})
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_the_guides_code_has_types(tmp_path: pathlib.Path) -> None:
    guide = (ROOT / "docs" / "guide" / "python.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 5
    assert mypy("\n".join(blocks), tmp_path) == ""


def test_types_of_results_are_what_they_are(short: paceline.Scenario, tmp_path: pathlib.Path) -> None:
    code = """
import pathlib
import paceline
import paceline.gym
flow: paceline.Flow = {"count": 2, "from": "a", "receiver": "optimistic", "workload": {"media_rate": {"fps": 30}}}
direction: paceline.Direction = {"light_trace": "y", "marks": "bleach", "policer": {"rate": "1 Mbit/s", "action": "mark"}, "delay_schedule": [["0s", "20ms"]], "schedule": {"markov": {"rates": ["1 Mbit/s"]}}}
telemetry: paceline.Telemetry = {"profile": "L2", "interval": "10ms"}
cross: paceline.Cross = {"rate": "1 Mbit/s", "from": "a", "to": "b", "burst": 10}
program: paceline.Program = {"sender": "a", "receiver": "b", "ready": {"line": "ready"}, "exit": [0, 1], "figures": {"x": "a.json#/x"}}
scenario: paceline.Scenario = paceline.Scenario("a", programs={"own": program}, programs_from=pathlib.Path("programs.toml"), flows=[flow])
asked: paceline.Evaluation = paceline.evaluate("copa", quick=True)
answer: str = asked[0].answer
judged: list[str] = [one.verdict for one in paceline.conform("cubic@tcp")]
again: paceline.Replayed = paceline.replay("log.jsonl")
records: paceline.Records = paceline.run(paceline.shipped("cellular"), events="logs", seconds="2s", progress=True)
"""
    assert mypy(code, tmp_path) == ""
    wrong: list[Any] = ['telemetry: paceline.Telemetry = {"report_every": "10ms"}', 'direction: paceline.Direction = {"ecn": True}', 'program: paceline.Program = {"command": "a"}']
    said = mypy("\n".join(["import paceline", *wrong, ""]), tmp_path)
    assert [f"code.py:{line}: error: Extra key" in said for line in range(2, 5)] == [True] * 3, said
