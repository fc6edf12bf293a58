"""Stages: what moves when. A stage is data; this is where it meets the graph."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import tensorflow as tf

from hvd_gan.config import ConfigError, OptimizerSettings, Settings, UpdateSettings
from hvd_gan.engine.graph import GanGraph


@dataclass(frozen=True)
class Update:
    """One loss moving some networks. `name` is unique in the run: `joint/generator`."""

    name: str
    loss_name: str
    loss: tf.Tensor
    networks: tuple[str, ...]
    variables: tuple[tf.Variable, ...]
    optimizer: OptimizerSettings
    allow_unreached: tuple[str, ...]


@dataclass(frozen=True)
class Stage:
    """A stretch of `steps` steps; each step makes all updates from one forward pass."""

    name: str
    steps: int
    updates: tuple[Update, ...]

    @property
    def networks(self) -> tuple[str, ...]:
        """The networks that train in this stage."""
        return tuple(dict.fromkeys(name for update in self.updates for name in update.networks))


def make_stages(gan: GanGraph, settings: Settings) -> tuple[Stage, ...]:
    """The schedule of the settings over the losses and networks of a graph.

    Raises ConfigError where a stage names a loss or network that the graph does not have, or two
    updates of one stage would move the same variable.
    """
    stages = []
    for stage_name, stage in settings.stages.items():
        updates = tuple(
            _make_update(f"{stage_name}/{name}", update, gan, settings.optimizer)
            for name, update in stage.updates.items()
        )
        _check_disjoint(updates)
        stages.append(Stage(stage_name, stage.steps, updates))
    return tuple(stages)


def _make_update(
    name: str, update: UpdateSettings, gan: GanGraph, default: OptimizerSettings
) -> Update:
    key = "stages.{}.updates.{}".format(*name.split("/"))
    _check_known(f"{key}.loss", [update.loss], gan.losses)
    _check_known(f"{key}.networks", update.networks, gan.networks)
    variables = tuple(gan.trainable(update.networks))
    if not variables:
        scopes = ", ".join(f"{gan.networks[network]}/" for network in update.networks)
        raise ConfigError(
            f"{key}.networks: no trainable variable stands under {scopes}; build the network "
            "under its variable scope, or name the scope that it is built under"
        )
    return Update(
        name=name,
        loss_name=update.loss,
        loss=gan.losses[update.loss],
        networks=update.networks,
        variables=variables,
        optimizer=update.optimizer or default,
        allow_unreached=update.allow_unreached,
    )


def _check_known(key: str, names: Iterable[str], known: Mapping[str, object]) -> None:
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}"
            raise ConfigError(f"{key}: the model has no {name!r}; {hint}")


def _check_disjoint(updates: tuple[Update, ...]) -> None:
    movers: dict[str, str] = {}
    for update in updates:
        for variable in update.variables:
            other = movers.setdefault(variable.op.name, update.name)
            if other != update.name:
                raise ConfigError(
                    f"updates {other} and {update.name} of one stage both move "
                    f"{variable.op.name}; sum their losses into one update, or give each variable "
                    "to one of them"
                )
