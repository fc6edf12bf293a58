"""The ledger: for every stage and variable, what happens to it, known before the first step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase

import numpy as np
import tensorflow as tf

from hvd_gan.config_base import ConfigError
from hvd_gan.engine.graph import GanGraph
from hvd_gan.engine.stages import Stage, Update


class State(Enum):
    """What a stage does to a variable."""

    TRAINED = "trained"
    FROZEN = "frozen"
    UPDATED = "buffer updated"
    HELD = "buffer held"
    UNREACHED = "unreached"


@dataclass(frozen=True)
class Entry:
    """One variable in one stage.

    trained_by: the stage's updates that move it, several only if they alternate.
    missed_by: those that list it, and whose loss does not reach it.
    """

    stage: str
    variable: tf.Variable
    network: str | None
    state: State
    trained_by: tuple[Update, ...] = ()
    missed_by: tuple[Update, ...] = ()

    @property
    def size(self) -> int:
        """The number of its elements."""
        return int(np.prod(self.variable.shape.as_list(), dtype=np.int64))


@dataclass(frozen=True)
class Ledger:
    """All entries, in the order of the stages and of the variables' creation.

    scopes: the variable scope of each network.
    """

    scopes: Mapping[str, str]
    stages: tuple[Stage, ...]
    entries: tuple[Entry, ...]

    def of_stage(self, stage: str) -> list[Entry]:
        """The entries of one stage."""
        return [entry for entry in self.entries if entry.stage == stage]

    def var_list(self, update: Update) -> list[tf.Variable]:
        """The variables that an update trains: what its optimizer is given."""
        return [entry.variable for entry in self.entries if update in entry.trained_by]

    def updated_buffers(self, stage: str, updates: Sequence[Update]) -> list[str]:
        """The names of the buffers that move when a stage makes some of its updates."""
        training = {network for update in updates for network in update.networks}
        return [
            entry.variable.op.name
            for entry in self.of_stage(stage)
            if entry.state is State.UPDATED and entry.network in training
        ]

    def errors(self) -> list[str]:
        """Why training must not start: variables that are listed but not reached."""
        found = []
        for stage in self.stages:
            for update in stage.updates:
                missed = [e for e in self.of_stage(stage.name) if update in e.missed_by]
                if not self.var_list(update):
                    found.append(
                        f"{update.name}: loss {update.loss_name!r} depends on no variable of "
                        f"{', '.join(update.networks)}, so it trains nothing. Name the networks "
                        "that it depends on, or another loss"
                    )
                else:
                    found += [_unreached(entry.variable, update) for entry in missed]
        return [error for error in found if error]

    def warnings(self) -> list[str]:
        """Trainable variables that no stage trains."""
        trained = {e.variable.op.name for e in self.entries if e.state is State.TRAINED}
        idle = {
            entry.variable.op.name: entry.network
            for entry in self.entries
            if entry.state in (State.FROZEN, State.UNREACHED)
            and entry.variable.op.name not in trained
        }
        return [
            f"no stage trains {name}" + ("" if network else ", which is in no network")
            for name, network in idle.items()
        ]

    def check(self) -> None:
        """Raises ConfigError with every finding of `errors`, one a line."""
        if errors := self.errors():
            raise ConfigError("\n".join(errors))


def make_ledger(
    gan: GanGraph, stages: Sequence[Stage], buffers: Mapping[str, list[tf.Operation]]
) -> Ledger:
    """The ledger of a graph and its schedule.

    `buffers` are the names of variables that the model itself updates (`buffer_updates`).
    """
    variables = tf.compat.v1.global_variables()
    trainable = {variable.ref() for variable in tf.compat.v1.trainable_variables()}
    entries = []
    for stage in stages:
        reached = {update: _reached(update) for update in stage.updates}
        training = {network for update in stage.updates for network in update.networks}
        for variable in variables:
            network = gan.network_of(variable)
            listed = [update for update in stage.updates if network in update.networks]
            listed = listed if variable.ref() in trainable else []
            trained_by = tuple(update for update in listed if variable.ref() in reached[update])
            missed_by = tuple(update for update in listed if update not in trained_by)
            if listed:
                state = State.TRAINED if trained_by else State.UNREACHED
            elif variable.ref() in trainable:
                state = State.FROZEN
            elif variable.op.name in buffers and network in training:
                state = State.UPDATED
            else:
                state = State.HELD
            entries.append(Entry(stage.name, variable, network, state, trained_by, missed_by))
    return Ledger(gan.networks, tuple(stages), tuple(entries))


def _reached(update: Update) -> set:
    """References to the variables that the update's loss depends on.

    Asks TensorFlow for gradients and drops them: the operations are never fetched, so they cost
    graph building only.
    """
    with tf.name_scope(f"ledger/{update.name}"):
        losses = [term.loss for term in update.terms]
        gradients = tf.gradients(losses, list(update.variables))
    return {
        variable.ref()
        for variable, gradient in zip(update.variables, gradients, strict=True)
        if gradient is not None
    }


def _unreached(variable: tf.Variable, update: Update) -> str:
    """The error about a variable that a loss does not reach; '' if that was allowed."""
    name = variable.op.name
    if any(fnmatchcase(name, pattern) for pattern in update.allow_unreached):
        return ""
    return (
        f"{update.name}: loss {update.loss_name!r} does not reach {name}, which is in its "
        "var_list: its gradient would be None. Take its network out of the update, add a loss that "
        f"depends on it, or allow it with allow_unreached: ['{name}']"
    )
