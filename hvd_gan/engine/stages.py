"""Stages: what moves when. A stage is data; this is where it meets the graph."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from hvd_gan.config import Settings
from hvd_gan.config_base import ConfigError
from hvd_gan.config_stages import (
    OptimizerSettings,
    Plateau,
    Ramp,
    StageSettings,
    UpdateSettings,
)
from hvd_gan.engine.graph import GanGraph, RateFactor


@dataclass(frozen=True)
class Term:
    """One of the model's losses with its weight in an update."""

    name: str
    loss: tf.Tensor
    weight: float | Ramp


@dataclass(frozen=True, eq=False)
class Update:
    """A loss moving some networks. `name` is unique in the run: `joint/generator`.

    `rate_factor` multiplies its learning rate, if the model gives one for its network.
    """

    name: str
    terms: tuple[Term, ...]
    networks: tuple[str, ...]
    variables: tuple[tf.Variable, ...]
    optimizer: OptimizerSettings
    allow_unreached: tuple[str, ...]
    rate_factor: RateFactor | None

    @property
    def loss_name(self) -> str:
        """The loss as people write it: `completion + adversarial`."""
        return " + ".join(term.name for term in self.terms)


@dataclass(frozen=True)
class Stage:
    """A stretch of at most `steps` steps.

    A step makes the updates of one turn, all from one forward pass; turns come round in their
    order. A stage whose updates are simultaneous has one turn. `total_steps` are those of all
    visits together.
    """

    name: str
    steps: int
    total_steps: int
    turns: tuple[tuple[Update, ...], ...]
    plateau: Plateau | None = None

    @property
    def updates(self) -> tuple[Update, ...]:
        """The stage's updates, each once."""
        return tuple({update.name: update for turn in self.turns for update in turn}.values())


@dataclass(frozen=True)
class Visit:
    """One time that training goes through a stage. `number` counts the visits of the schedule
    from 0; `label` tells those of a repeated stage apart: `completion-2`.
    """

    number: int
    stage: Stage
    label: str


def make_visits(stages: Iterable[Stage], order: Sequence[str]) -> tuple[Visit, ...]:
    """The visits of a schedule, from the names of stages in the order of their visits."""
    by_name = {stage.name: stage for stage in stages}
    visits = []
    for number, name in enumerate(order):
        times = order[: number + 1].count(name)
        label = name if order.count(name) == 1 else f"{name}-{times}"
        visits.append(Visit(number, by_name[name], label))
    return tuple(visits)


def make_stages(gan: GanGraph, settings: Settings) -> tuple[Stage, ...]:
    """The distinct stages of the settings over the losses and networks of a graph.

    Raises ConfigError where a stage names a loss or network that the graph does not have, or two
    updates of one step would move the same variable.
    """
    return tuple(
        _make_stage(name, stage, settings.visits.count(name), gan, settings.optimizer)
        for name, stage in settings.distinct_stages.items()
    )


def _make_stage(
    name: str, stage: StageSettings, visits: int, gan: GanGraph, default: OptimizerSettings
) -> Stage:
    updates = {
        key: _make_update(f"{name}/{key}", update, gan, default)
        for key, update in stage.updates.items()
    }
    if stage.plateau is not None:
        losses = {loss for update in stage.updates.values() for loss in update.loss}
        _check_known(f"{name}.plateau.loss", [stage.plateau.loss], losses, "the stage's updates")
    turns: tuple[tuple[Update, ...], ...] = (tuple(updates.values()),)
    if stage.alternate is not None:
        turns = tuple(
            (updates[key],) for key, count in stage.alternate.items() for _ in range(count)
        )
    for turn in turns:
        _check_disjoint(turn)
    return Stage(name, stage.steps, stage.steps * visits, turns, stage.plateau)


def _make_update(
    name: str, update: UpdateSettings, gan: GanGraph, default: OptimizerSettings
) -> Update:
    key = "{}.updates.{}".format(*name.split("/"))
    _check_known(f"{key}.loss", update.loss, gan.losses, "the model")
    _check_known(f"{key}.networks", update.networks, gan.networks, "the model")
    for network in update.networks:
        if not gan.trainable((network,)):
            raise ConfigError(
                f"stages.{key}.networks: no trainable variable stands under "
                f"{gan.networks[network]}/; build the network under its variable scope, or name "
                "the scope that it is built under"
            )
    return Update(
        name=name,
        terms=tuple(Term(loss, gan.losses[loss], weight) for loss, weight in update.loss.items()),
        networks=update.networks,
        variables=tuple(gan.trainable(update.networks)),
        optimizer=update.optimizer or default,
        allow_unreached=update.allow_unreached,
        rate_factor=_rate_factor(key, update, gan),
    )


def _rate_factor(key: str, update: UpdateSettings, gan: GanGraph) -> RateFactor | None:
    factors = [gan.rate_factors[name] for name in update.networks if name in gan.rate_factors]
    if factors and len(update.networks) > 1:
        raise ConfigError(
            f"stages.{key}.networks: the model sets the rate of each network by itself; give each "
            "an update of its own"
        )
    return factors[0] if factors else None


def _check_known(
    key: str, names: Iterable[str], known: Mapping[str, object] | set[str], owner: str
) -> None:
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
            raise ConfigError(f"stages.{key}: {owner} has no {name!r}; {hint}")


def _check_disjoint(updates: tuple[Update, ...]) -> None:
    movers: dict[str, str] = {}
    for update in updates:
        for variable in update.variables:
            other = movers.setdefault(variable.op.name, update.name)
            if other != update.name:
                raise ConfigError(
                    f"updates {other} and {update.name} of one step both move "
                    f"{variable.op.name}; sum their losses into one update, let them alternate, or "
                    "give each variable to one of them"
                )
