"""The ledger for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from rich.console import Console
from rich.table import Table

from hvd_gan.config import Settings
from hvd_gan.config_files import load
from hvd_gan.data.pipeline import batches
from hvd_gan.data.source import Image
from hvd_gan.engine.ledger import Entry, Ledger, State
from hvd_gan.engine.model import find_model
from hvd_gan.engine.program import plan
from hvd_gan.head import amount
from hvd_gan.screen import PLAIN_WIDTH

SHOWN = {
    State.TRAINED: "trained",
    State.FROZEN: "frozen",
    State.UPDATED: "updated",
    State.HELD: "held",
    State.UNREACHED: "UNREACHED",
}
WIRE_BYTES = {"none": 4, "fp16": 2}


class NoImages:
    """A source of one black pixel: an audit needs the shapes of batches, and no data."""

    def __len__(self) -> int:
        return 1

    def read(self, index: int) -> Image:
        """The pixel."""
        return np.zeros((1, 1, 3), np.uint8)

    def name(self, index: int) -> str:
        """What it is called."""
        return "nothing"

    def fingerprint(self) -> str:
        """Always the same."""
        return "nothing"


def audit(
    preset: str | None, files: Sequence[Path], overrides: Sequence[str]
) -> tuple[Ledger, Settings]:
    """Builds a model as training would and returns its ledger.

    Raises ConfigError where the settings do not fit the model.
    """
    settings, layer = load(preset, files, overrides)
    model = find_model(settings.model.build)
    own = model.settings(layer)
    data = settings.data.model_copy(update={"mean_color": (0.5, 0.5, 0.5)})
    batch = settings.rank_batch(1)
    with tf.Graph().as_default():
        feed = batches(NoImages(), data, seed=0, batch=batch, rank=0, ranks=1, threads=1)
        *_, ledger = layer.locating(lambda: plan(model.build, feed, own, settings))
    return ledger, settings


def report(ledger: Ledger, settings: Settings) -> dict[str, Any]:
    """The ledger as plain values, for `--json`."""
    stages = [
        {
            "name": stage.name,
            "steps": stage.steps,
            "updates": [
                {
                    "name": update.name,
                    "loss": update.loss_name,
                    "networks": list(update.networks),
                    "wire_bytes_per_step": _wire(ledger.var_list(update), settings),
                }
                for update in stage.updates
            ],
            "variables": [
                {
                    "name": entry.variable.op.name,
                    "network": entry.network,
                    "state": entry.state.value,
                    "shape": entry.variable.shape.as_list(),
                    "size": entry.size,
                }
                for entry in ledger.of_stage(stage.name)
            ],
        }
        for stage in ledger.stages
    ]
    return {"stages": stages, "errors": ledger.errors(), "warnings": ledger.warnings()}


def show(ledger: Ledger, settings: Settings, depth: int | None) -> None:
    """Prints the ledger: a row a variable or scope, a column a stage, totals for each network."""
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=PLAIN_WIDTH)
    table = Table(box=None, pad_edge=False)
    table.add_column("variable" if depth is None else "scope", overflow="fold")
    table.add_column("shape" if depth is None else "variables", justify="right")
    table.add_column("size", justify="right")
    for stage in ledger.stages:
        table.add_column(stage.name)
    entries = {stage.name: ledger.of_stage(stage.name) for stage in ledger.stages}
    first = next(iter(entries.values()))
    scopes = ledger.scopes
    for network in dict.fromkeys(entry.network for entry in first):
        members = [index for index, entry in enumerate(first) if entry.network == network]
        size = amount(sum(first[index].size for index in members))
        table.add_row(f"[bold]{network or 'in no network'}[/bold]", "", f"[bold]{size}[/bold]")
        for name, group in _groups(first, members, depth).items():
            states = [_states([of[index] for index in group]) for of in entries.values()]
            shape = str(first[group[0]].variable.shape.as_list()) if depth is None else len(group)
            size = amount(sum(first[index].size for index in group))
            # The network's name stands above; its scope need not be repeated in each row.
            below = name.removeprefix(f"{scopes[network]}/") if network else name
            table.add_row(f"  {below}", str(shape), size, *states)
    console.print(table)
    for stage in ledger.stages:
        for update in stage.updates:
            variables = ledger.var_list(update)
            console.print(
                f"{update.name}: {update.loss_name} moves {len(variables)} variables, "
                f"{amount(_wire(variables, settings))}B on the wire a step",
                markup=False,
            )
    for kind, findings in (("error", ledger.errors()), ("warning", ledger.warnings())):
        for finding in findings:
            console.print(f"{kind}: {finding}", markup=False, soft_wrap=True)


def _groups(
    entries: Sequence[Entry], members: Sequence[int], depth: int | None
) -> dict[str, list[int]]:
    """Indices of variables by the first `depth` parts of their names, or by the whole name."""
    groups: dict[str, list[int]] = {}
    for index in members:
        name = entries[index].variable.op.name
        scope = name if depth is None else "/".join(name.split("/")[:depth])
        groups.setdefault(scope, []).append(index)
    return groups


def _states(entries: Sequence[Entry]) -> str:
    return ", ".join(dict.fromkeys(SHOWN[entry.state] for entry in entries))


def _wire(variables: Sequence[tf.Variable], settings: Settings) -> int:
    """The bytes of gradients that a rank sends into an allreduce in a step."""
    elements = sum(int(np.prod(variable.shape.as_list())) for variable in variables)
    return elements * WIRE_BYTES[settings.compression]
