"""Starts a run from another run's weights."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from hvd_gan.config import InitSettings
from hvd_gan.config_base import ConfigError
from hvd_gan.engine.checkpoints import checkpoints_in, read_values
from hvd_gan.engine.program import Program


def init_from(program: Program, session: tf.compat.v1.Session, settings: InitSettings) -> list[str]:
    """Gives the variables of some networks the values that they have in another run.

    Optimizer slots and counters start anew. Returns what was taken and what was not, a line each.
    Raises ConfigError where there is no such checkpoint or network and, if `strict`, where a
    variable is missing there or has another shape.
    """
    values = read_values(_checkpoint(settings))
    taken, left = [], []
    for variable in _variables(program, settings.networks or tuple(program.gan.networks)):
        name, shape = variable.op.name, variable.shape.as_list()
        value = values.get(name)
        if value is None:
            left.append(f"{name}: not there")
        elif list(np.shape(value)) != shape:
            left.append(f"{name}: {list(np.shape(value))} there, {shape} here")
        else:
            initializer = variable.initializer
            session.run(initializer, {initializer.inputs[1]: value})
            taken.append(name)
    if left and (settings.strict or not taken):
        listed = "\n".join(f"  {line}" for line in left)
        raise ConfigError(
            f"init.run: {settings.run} does not have all that is to start from it; name networks "
            f"with init.networks, or take what fits with init.strict=false\n{listed}"
        )
    return [
        f"from    {settings.run}: {len(taken)} variables of {_networks(program, taken)}",
        *(f"        not taken: {line}" for line in left),
    ]


def _checkpoint(settings: InitSettings):
    folder = settings.run / "checkpoints"
    saved = checkpoints_in(folder)
    if settings.step is not None:
        saved = [path for path in saved if path.name == f"step-{settings.step:08d}"]
    if not saved:
        there = ", ".join(str(int(path.name[5:])) for path in checkpoints_in(folder)) or "none"
        raise ConfigError(f"init: no such checkpoint in {folder}; steps that are there: {there}")
    return saved[-1]


def _variables(program: Program, networks: tuple[str, ...]) -> Iterable[tf.Variable]:
    unknown = set(networks) - set(program.gan.networks)
    if unknown:
        raise ConfigError(
            f"init.networks: the model has no {', '.join(sorted(unknown))}; it has "
            f"{', '.join(program.gan.networks)}"
        )
    # The ledger was made before any optimizer, so it holds the model's own variables alone.
    first = program.visits[0].stage.name
    return [e.variable for e in program.ledger.of_stage(first) if e.network in networks]


def _networks(program: Program, names: list[str]) -> str:
    scopes = program.gan.networks.items()
    return ", ".join(
        network for network, scope in scopes if any(n.startswith(f"{scope}/") for n in names)
    )
