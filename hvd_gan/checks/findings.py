"""Findings: what a check has found, how bad it is, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

Row = dict[str, Any]


class Severity(StrEnum):
    """From good to bad."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


EXIT_CODES = {Severity.OK: 0, Severity.NOTE: 0, Severity.WARNING: 1, Severity.ERROR: 2}


@dataclass(frozen=True)
class Finding:
    """One line of the report. `cure` is what to do, in one line; None only where all is well.

    `rank` and `host` say whose finding it is, where that matters. `rows` are measurements or other
    tabular facts, all with the same keys.
    """

    name: str
    severity: Severity
    detail: str
    cure: str | None = None
    rank: int | None = None
    host: str | None = None
    rows: tuple[Row, ...] = ()

    def at(self, rank: int | None = None, host: str | None = None) -> Finding:
        """The same finding of a rank or a host."""
        return replace(self, rank=rank, host=host)

    def plain(self) -> dict[str, Any]:
        """As plain values, for JSON. The keys are an interface: programs read them."""
        return {**asdict(self), "rows": list(self.rows)}


def from_plain(values: Mapping[str, Any]) -> Finding:
    """The inverse of `Finding.plain`."""
    severity, rows = Severity(values["severity"]), tuple(values["rows"])
    return Finding(**{**values, "severity": severity, "rows": rows})


def ok(name: str, detail: str, rows: Sequence[Row] = ()) -> Finding:
    """All is well."""
    return Finding(name, Severity.OK, detail, rows=tuple(rows))


def note(name: str, detail: str, cure: str) -> Finding:
    """Works, and could be better."""
    return Finding(name, Severity.NOTE, detail, cure)


def warning(name: str, detail: str, cure: str) -> Finding:
    """Will be slow, or will fail sooner or later."""
    return Finding(name, Severity.WARNING, detail, cure)


def error(name: str, detail: str, cure: str) -> Finding:
    """Does not work."""
    return Finding(name, Severity.ERROR, detail, cure)


def has_errors(findings: Iterable[Finding]) -> bool:
    """Whether any finding is an error."""
    return any(finding.severity is Severity.ERROR for finding in findings)


def exit_code(findings: Iterable[Finding]) -> int:
    """0 if all is well or only noted, 1 with warnings, 2 with errors."""
    return max((EXIT_CODES[finding.severity] for finding in findings), default=0)
