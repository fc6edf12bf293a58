"""Shows findings: tables in a terminal, plain lines elsewhere, JSON for programs."""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Iterable, Sequence

from hvd_gan.checks.findings import Finding, Row, Severity
from hvd_gan.cluster.launcher import shows_on_terminal

STYLES = {
    Severity.OK: "green",
    Severity.NOTE: "cyan",
    Severity.WARNING: "yellow",
    Severity.ERROR: "bold red",
}
WIDTH = 80
NAME_WIDTH = 15
# Launchers put a tag before each line.
TAG_WIDTH = 14


def as_json(findings: Iterable[Finding]) -> str:
    """A list of objects with the keys of `Finding.plain`."""
    return json.dumps([finding.plain() for finding in findings], indent=1)


def show(title: str, findings: Sequence[Finding], tagged: bool = False) -> None:
    """Prints a section of the report. `tagged` says that a launcher precedes each line."""
    if not findings:
        return
    if shows_on_terminal() and _has_rich():
        width = min(shutil.get_terminal_size((WIDTH, 24)).columns, 120)
        _table(title, findings, width - TAG_WIDTH if tagged else width)
    else:
        print("\n".join(_plain(title, findings)), flush=True)


def _has_rich() -> bool:
    try:
        importlib.import_module("rich.table")
    except ImportError:
        return False
    return True


def _where(finding: Finding) -> str:
    """`rank 1 on b: ` before what concerns a rank or a host; else nothing."""
    parts = [f"rank {finding.rank}"] if finding.rank is not None else []
    parts += [f"on {finding.host}" if parts else finding.host] if finding.host else []
    return f"{' '.join(parts)}: " if parts else ""


def _plain(title: str, findings: Iterable[Finding]) -> Iterable[str]:
    yield f"{title}:"
    for finding in findings:
        head = f"  {finding.severity.value:<8} {finding.name:<{NAME_WIDTH}}"
        yield f"{head} {_where(finding)}{_one_line(finding.detail)}"
        if finding.cure:
            yield f"{'cure:':>{len(head)}} {_one_line(finding.cure)}"
        yield from (f"{'':>{len(head)}} {line}" for line in _columns(finding.rows))


def _columns(rows: Sequence[Row]) -> Iterable[str]:
    """Rows under a heading, right-aligned."""
    if not rows:
        return
    lines = [list(rows[0]), *([_cell(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  ".join(
            text.rjust(width) for text, width in zip(line, widths, strict=True)
        ).rstrip()


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.{2 if value >= 10 else 3}f}"
    return "" if value is None else str(value)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _table(title: str, findings: Iterable[Finding], width: int) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("", width=max(len(severity) for severity in Severity))
    table.add_column("", width=NAME_WIDTH, overflow="fold")
    table.add_column("", ratio=1, overflow="fold")
    table.show_header = False
    for finding in findings:
        severity = finding.severity
        text = Text(_where(finding) + _one_line(finding.detail))
        if finding.cure:
            text.append(f"\n-> {_one_line(finding.cure)}", STYLES[severity])
        text.append("".join(f"\n{line}" for line in _columns(finding.rows)), "dim")
        table.add_row(Text(severity.value, STYLES[severity]), finding.name, text)
    console = Console(force_terminal=True, highlight=False, width=width)
    console.print(table)
    console.print()
