"""Starts a run from another run's weights."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from hvd_gan.config import InitSettings
from hvd_gan.config_base import ConfigError
from hvd_gan.engine.checkpoint_files import (
    DamagedError,
    Newest,
    checkpoints_in,
    newest_good,
    step_of,
    verified,
)
from hvd_gan.engine.checkpoints import read_values
from hvd_gan.engine.program import Program


def init_from(program: Program, session: tf.compat.v1.Session, settings: InitSettings) -> list[str]:
    """Gives the variables of some networks the values that they have in another run.

    Optimizer slots and counters start anew. Returns what was taken and what was not, a line each.
    Raises ConfigError where there is no such checkpoint or network and, if `strict`, where a
    variable is missing there or has another shape.
    """
    start = _checkpoint(settings)
    assert start.checkpoint is not None
    values = read_values(start.checkpoint)
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
        *(f"warning: {settings.run}: {report}" for report in start.reports),
        f"from    {settings.run}: {len(taken)} variables of {_networks(program, taken)}",
        *(f"        not taken: {line}" for line in left),
    ]


def _checkpoint(settings: InitSettings) -> Newest:
    """The checkpoint that is asked for, if it is whole; without a step the newest that is."""
    folder = settings.run / "checkpoints"
    if settings.step is None:
        newest = newest_good(folder)
        if newest.checkpoint is None:
            raise ConfigError(f"init: there is no checkpoint in {folder}")
        return newest
    saved = {step_of(path): path for path in checkpoints_in(folder)}
    if settings.step not in saved:
        there = ", ".join(map(str, saved)) or "none"
        raise ConfigError(f"init: no such checkpoint in {folder}; steps that are there: {there}")
    path = saved[settings.step]
    try:
        return Newest(path, verified(path))
    except DamagedError as error:
        raise ConfigError(f"init: {path} is damaged: {error}; name another step") from None


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
