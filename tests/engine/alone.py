"""Trains a model through the whole engine in this process, and tells what moved in each stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf

from hvd_gan.config import Settings
from hvd_gan.engine.graph import Build
from hvd_gan.engine.ledger import Ledger
from hvd_gan.engine.monitors.monitor import Monitor
from hvd_gan.engine.program import Program, make_program
from hvd_gan.engine.trainer import train

Values = dict[str, np.ndarray]
# The engine's own counters move in every step; what they hold is tested elsewhere.
COUNTERS = "hvd_gan/"


@dataclass(frozen=True)
class SameBatch:
    """A feed with the same arrays in every step."""

    tensors: Mapping[str, tf.Tensor]

    def seek(self, session, position) -> None:
        """Every position is the same."""

    def error(self) -> None:
        """Nothing goes wrong."""


@dataclass(frozen=True)
class Trained:
    """What a run was going to do, and what it did: values and reports by stage."""

    ledger: Ledger
    before: dict[str, Values] = field(default_factory=dict)
    after: dict[str, Values] = field(default_factory=dict)
    reports: dict[str, list[Mapping[str, float]]] = field(default_factory=dict)

    def states(self, stage: str) -> dict[str, str]:
        """What the ledger says of each variable in a stage."""
        return {entry.variable.op.name: entry.state.value for entry in self.ledger.of_stage(stage)}

    def moved(self, stage: str) -> set[str]:
        """The variables that a stage has changed."""
        before, after = self.before[stage], self.after[stage]
        return {name for name in after if not np.array_equal(before[name], after[name])}


class Watch(Monitor):
    """Fills a `Trained` while training goes on."""

    def __init__(self, trained: Trained, program: Program, session: tf.compat.v1.Session) -> None:
        self._trained = trained
        self._program = program
        self._session = session

    def before_stage(self, visit, done) -> None:
        self._trained.before[visit.stage.name] = self._read()
        self._trained.reports[visit.stage.name] = []

    def after_step(self, report) -> None:
        self._trained.reports[report.visit.stage.name].append(report.values)

    def after_stage(self, report) -> None:
        self._trained.after[report.visit.stage.name] = self._read()

    def _read(self) -> Values:
        values = self._program.read(self._session)
        return {name: value for name, value in values.items() if not name.startswith(COUNTERS)}


def train_alone(build: Build, stages: dict, batch: Mapping[str, np.ndarray], **more) -> Trained:
    """Trains a schedule from its beginning to its end, with SGD unless something else is said.

    Raises ConfigError where the ledger refuses to train.
    """
    plain = {"batch": 1, "optimizer": {"name": "sgd", "learning_rate": 0.1}}
    settings = Settings.model_validate({**plain, "stages": stages, **more})
    with tf.Graph().as_default() as graph:
        feed = SameBatch({name: tf.constant(value) for name, value in batch.items()})
        program = make_program(build, feed, {}, settings)
        trained = Trained(program.ledger)
        with tf.compat.v1.Session(graph=graph) as session:
            session.run(program.initialize)
            session.run(program.broadcast)
            train(program, session, feed, settings, [Watch(trained, program, session)])
    return trained


def stage(steps: int, **updates: tuple[str, str]) -> dict:
    """A stage's settings from `update=("loss", "one network, another")`."""
    return {
        "steps": steps,
        "updates": {
            name: {"loss": loss, "networks": networks.split(", ")}
            for name, (loss, networks) in updates.items()
        },
    }
