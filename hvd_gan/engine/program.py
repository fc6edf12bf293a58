"""The program: the whole run in one graph, the same on every rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import horovod.tensorflow as hvd
import tensorflow as tf

from hvd_gan.config import Settings
from hvd_gan.engine.buffers import buffer_updates
from hvd_gan.engine.counters import Counters, make_counters
from hvd_gan.engine.graph import Build, GanGraph, build_apart
from hvd_gan.engine.ledger import Ledger, make_ledger
from hvd_gan.engine.stages import Visit, make_stages, make_visits
from hvd_gan.engine.train_ops import Parts, TrainOp, make_train_ops


class Feed(Protocol):
    """Batches, built in the program's graph."""

    @property
    def tensors(self) -> Mapping[str, tf.Tensor]:
        """What the model is built on, with static shapes."""

    def seek(self, session: tf.compat.v1.Session, position: int) -> None:
        """Makes the next batch start at a global sample position."""

    def error(self) -> Exception | None:
        """What went wrong in making a batch, where TensorFlow only tells that something did."""


@dataclass(frozen=True)
class Program:
    """A graph and what is run in it.

    visits: the schedule, stage after stage. train_ops: by stage, one for each of its turns.
    """

    graph: tf.Graph
    gan: GanGraph
    visits: tuple[Visit, ...]
    ledger: Ledger
    counters: Counters
    train_ops: dict[str, tuple[TrainOp, ...]]
    variables: tuple[tf.Variable, ...]
    initialize: tf.Operation
    broadcast: tf.Operation
    visit_number: tf.Tensor
    start_visit: tf.Operation

    def read(self, session: tf.compat.v1.Session) -> dict[str, Any]:
        """Every global variable's value, by name."""
        return session.run({variable.op.name: variable for variable in self.variables})

    def load(self, session: tf.compat.v1.Session, values: Mapping[str, Any]) -> None:
        """Sets every global variable to what `read` gave, in any graph of the same model."""
        for variable in self.variables:
            # Through the initializer: no node is added to the graph, whatever the value.
            initializer = variable.initializer
            session.run(initializer, {initializer.inputs[1]: values[variable.op.name]})

    def schedule(self) -> list[list]:
        """The visits as plain values: name of the stage and steps, in order."""
        return [[visit.stage.name, visit.stage.steps] for visit in self.visits]

    def go_to_visit(self, session: tf.compat.v1.Session, number: int) -> None:
        """Lets the counters stand at the beginning of a visit."""
        session.run(self.start_visit, {self.visit_number: number})


def plan(build: Build, feed: Feed, model_settings: Any, settings: Settings) -> tuple:
    """Builds the model and its ledger in the current graph: what would be trained, no more."""
    gan = build_apart(build, feed.tensors, model_settings, True)
    buffers = buffer_updates()
    stages = make_stages(gan, settings)
    return gan, buffers, stages, make_ledger(gan, stages, buffers)


def make_program(build: Build, feed: Feed, model_settings: Any, settings: Settings) -> Program:
    """Builds everything that a run needs in the current graph.

    All optimizers, slots and counters exist before the one broadcast is made, so that it covers
    them. Raises ConfigError where the ledger refuses to train.
    """
    gan, buffers, stages, ledger = plan(build, feed, model_settings, settings)
    ledger.check()
    counters = make_counters(stage.name for stage in stages)
    parts = Parts(ledger, buffers, counters, settings)
    train_ops = {stage.name: make_train_ops(stage, parts) for stage in stages}
    variables = tuple(tf.compat.v1.global_variables())
    visit_number = tf.compat.v1.placeholder(tf.int64, (), "visit_number")
    return Program(
        graph=tf.compat.v1.get_default_graph(),
        gan=gan,
        visits=make_visits(stages, settings.visits),
        ledger=ledger,
        counters=counters,
        train_ops=train_ops,
        variables=variables,
        initialize=tf.group(
            tf.compat.v1.variables_initializer(variables),
            # Gradient accumulators: empty at every step's end, so never saved.
            tf.compat.v1.local_variables_initializer(),
        ),
        broadcast=hvd.broadcast_variables(variables, root_rank=0),
        visit_number=visit_number,
        start_visit=counters.go_to(visit_number),
    )
