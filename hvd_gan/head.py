"""The head and the foot of a run: what will be trained, where, and how well it went."""

from __future__ import annotations

import math
from collections.abc import Iterable

import horovod
import tensorflow as tf
from rich.table import Table

from hvd_gan import __version__
from hvd_gan.cluster.world import World
from hvd_gan.config import Settings
from hvd_gan.engine.ledger import Ledger
from hvd_gan.engine.resuming import Progress
from hvd_gan.engine.stages import Stage
from hvd_gan.run_folder import RunFolder
from hvd_gan.screen import Screen


def show(
    screen: Screen,
    world: World,
    settings: Settings,
    folder: RunFolder,
    ledger: Ledger,
    start: Progress,
) -> None:
    """Prints the head. A collective: every rank names its device."""
    devices = world.gather(str(world.device))
    if not world.is_root:
        return
    screen.say(f"hvd_gan {__version__}, TensorFlow {tf.__version__}, Horovod {horovod.__version__}")
    for label, text in _facts(world, settings, folder, start, devices):
        screen.say(f"{label:<8}{text}")
    screen.table(_ledger_table(ledger))
    for warning in ledger.warnings():
        screen.say(f"warning: {warning}")


def show_results(screen: Screen, folder: RunFolder) -> None:
    """Prints where the run is and its evaluations, a column a stage."""
    quality = folder.read_quality()
    if quality:
        table = Table("held-out images", box=None, pad_edge=False)
        for stage in quality:
            table.add_column(stage, justify="right")
        for name in next(iter(quality.values())):
            values = [f"{results[name]:.2f}" for results in quality.values()]
            table.add_row(name.replace("_", " "), *values)
        screen.table(table)
    screen.say(f"run     {folder.path}")


def _facts(
    world: World, settings: Settings, folder: RunFolder, start: Progress, devices: list[str]
) -> Iterable[tuple[str, str]]:
    yield "run", f"{folder.path}" + (f", resumed after step {start.run}" if start.run else "")
    for host in dict.fromkeys(world.members):
        here = [rank for rank, name in enumerate(world.members) if name == host]
        kinds = ", ".join(dict.fromkeys(devices[rank] for rank in here))
        ranks = f"rank {here[0]}" if len(here) == 1 else f"ranks {_spans(here)}"
        yield (
            "host",
            f"{host}: {ranks}, each on {kinds}"
            if len(here) > 1
            else (f"{host}: {ranks} on {kinds}"),
        )
    passes = settings.backward_passes_per_step
    yield (
        "batch",
        (
            f"{settings.batch} = {world.size} rank{'s' if world.size > 1 else ''} x "
            f"{settings.rank_batch(world.size)} images"
            + (f" x {passes} passes" if passes > 1 else "")
        ),
    )
    yield "rate", _rates(settings)


def _rates(settings: Settings) -> str:
    scaling = settings.scaling
    factor = scaling.factor(settings.batch)
    rates = {
        (update.optimizer or settings.optimizer).name: (
            update.optimizer or settings.optimizer
        ).learning_rate
        for stage in settings.distinct_stages.values()
        for update in stage.updates.values()
    }
    text = ", ".join(f"{name} {rate * factor:g}" for name, rate in rates.items())
    text += f" ({scaling.rule} scaling: x {factor:g})" if scaling.rule != "none" else ""
    return text + (f", warm-up over {scaling.warmup_steps} steps" if scaling.warmup_steps else "")


def _ledger_table(ledger: Ledger) -> Table:
    """A row an update: narrow, since launchers put a tag before each line."""
    table = Table(box=None, pad_edge=False)
    for heading in ("stage", "steps", "trains", "size", "by loss"):
        table.add_column(heading, justify="right" if heading == "size" else "left")
    for stage in ledger.stages:
        for update in stage.updates:
            first = update is stage.updates[0]
            size = amount(sum(math.prod(v.shape.as_list()) for v in ledger.var_list(update)))
            table.add_row(
                stage.name if first else "",
                _steps(stage) if first else "",
                ", ".join(update.networks),
                size,
                update.loss_name,
            )
    return table


def _steps(stage: Stage) -> str:
    """A stage's steps: 100, or 10 x 100 if it is visited ten times."""
    visits = stage.total_steps // stage.steps if stage.steps else 1
    return f"{stage.steps}" if visits == 1 else f"{visits} x {stage.steps}"


def amount(number: float) -> str:
    """A large number, short: 6.1M, 383k."""
    for unit in ("", "k", "M"):
        if number < 1000:
            return f"{number:.3g}{unit}"
        number /= 1000
    return f"{number:.3g}G"


def _spans(ranks: list[int]) -> str:
    """Ranks as people write them: 0-3, or 0, 2, 4."""
    if ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"{ranks[0]}-{ranks[-1]}"
    return ", ".join(map(str, ranks))
