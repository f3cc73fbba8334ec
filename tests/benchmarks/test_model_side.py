"""`benchmarks.model_side`: its tasks, and what its scripted model notices."""

import argparse
import ast
import re
from pathlib import Path

from benchmarks.model_side.__main__ import Count, Shown, Step, tasks
from benchmarks.model_side.script_tasks import TASKS, script_of

TOOL = re.compile(r"[a-z]+__[\w-]+")


def test_every_task_says_what_it_looks_for(tmp_path: Path) -> None:
    read = tasks(tmp_path, "http://127.0.0.1:1/", argparse.Namespace(tasks=60))
    assert len(read) == 60
    assert len({goal for goal, _ in read}) == 60
    for goal, steps in read:
        assert steps, goal
        for step in steps:
            assert step.ask != step.again
            assert all(TOOL.fullmatch(name) for name in step.tools), goal
            assert "{workspace}" not in str(step.arguments)


def test_the_model_calls_what_it_was_shown() -> None:
    step = Step("read a file", "file contents", ["fs__read", "fs__cat"], {"path": "x", "head": 5})
    assert step.matching(["fs__write", "fs__cat", "fs__read"]) == "fs__cat"
    assert step.matching(["fs__write"]) is None
    shown = Shown(["fs__read"], {"fs__read": "fs__read .82 (path, …) [read_tool]"})
    assert not shown.has_all("fs__read", {"path": "x", "head": 5})
    assert shown.has_all("fs__read", {"path": "x"})
    assert Shown(["fs__read"]).has_all("fs__read", {"head": 5})


def test_tokens_are_counted_by_kind() -> None:
    count = Count()
    count.add("calls", "12345678")
    count.add("calls", {"é": 1})
    count.add("list", [])
    assert count.tokens == {"calls": 5, "list": 1}


def test_every_script_calls_tools_by_their_parameters() -> None:
    """A script that called nothing would cost nothing as a chain."""
    assert len(TASKS) == 40
    for goal in TASKS:
        script = script_of(goal, "/files")
        tree = compile(script, goal, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        assert isinstance(tree, ast.Module)
        assert isinstance(tree.body[-1], ast.Expr), goal
        assert re.search(r"await .*tools\.\w+\.\w+\(|= \[tools\.\w+", script, re.DOTALL), goal
        assert "WORK" not in script
        assert "COUNT" not in script
