"""A report fits into 80 columns, is plain elsewhere, and JSON for programs."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from hvd_gan.checks import report
from hvd_gan.checks.findings import error, exit_code, from_plain, note, ok, warning

ROWS = ({"size": "4 B", "ms": 0.5, "MPI ms": None}, {"size": "64 MB", "ms": 156.0, "MPI ms": 49.6})
FINDINGS = [
    ok("python", "3.11.7"),
    replace(warning("network", "slow", "name the fast one"), rows=ROWS),
    error("horovod", "built for another TensorFlow, " * 5, "build it anew " * 8).at(3, "host-b"),
]


def test_the_exit_code_is_that_of_the_worst():
    well, noted = ok("a", "b"), note("a", "b", "c")
    warned, wrong = warning("a", "b", "c"), error("a", "b", "c")
    assert exit_code([]) == exit_code([well, noted]) == 0
    assert exit_code([warned, noted]) == 1
    assert exit_code([warned, wrong, well]) == 2


def test_json_brings_every_finding_back():
    assert [from_plain(values) for values in json.loads(report.as_json(FINDINGS))] == FINDINGS


@pytest.mark.parametrize("tagged", [False, True])
def test_a_table_fits_into_a_terminal_of_80_columns(tagged, monkeypatch, capsys):
    monkeypatch.setattr(report, "shows_on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    report.show("Ranks", FINDINGS, tagged)
    shown = capsys.readouterr().out
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in shown.splitlines()]
    assert "\x1b[" in shown and max(map(len, lines)) <= (66 if tagged else 80)
    text = " ".join(" ".join(lines).split())
    assert "rank 3 on host-b: built for" in text and "-> build it anew" in text
    assert "size ms MPI ms 4 B 0.500 64 MB 156.00 49.60" in text


def test_lines_are_plain_where_there_is_no_terminal(capsys):
    report.show("Ranks", FINDINGS)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["Ranks:", "  ok       python          3.11.7"]
    assert lines[3].strip() == "cure: name the fast one"
    assert not any("\x1b" in line for line in lines)
