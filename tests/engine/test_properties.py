"""Over random models and schedules: what the ledger says is trained moves, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from hvd_gan.config_base import ConfigError
from hvd_gan.engine.graph import GanGraph
from tests.engine.alone import train_alone

v1 = tf.compat.v1
pytestmark = pytest.mark.usefixtures("horovod")
# Scopes that are easily mistaken for one another.
SCOPES = {"one": "a", "two": "a_b", "three": "a/b"}
KINDS = ("variable", "resource", "reference")


@dataclass(frozen=True)
class Weight:
    """A trainable variable, or a buffer that counts passes."""

    scope: str
    number: int
    kind: str
    size: int
    start: float

    @property
    def name(self) -> str:
        """Its name in the graph."""
        return f"{self.scope}/v{self.number}"


@dataclass(frozen=True)
class Case:
    """A model and its schedule. A loss is a sum of products of weights.

    All weights and so all gradients are positive: none is zero by chance. Weights may stand under
    a scope that is no network's.
    """

    networks: tuple[str, ...]
    weights: tuple[Weight, ...]
    losses: dict[str, list[list[Weight]]]
    stages: dict[str, dict]

    def build(self, batch, settings, training) -> GanGraph:
        """The model, in the engine's terms."""
        made = {weight: self._make(weight) for weight in self.weights}
        losses = {
            name: tf.add_n([tf.reduce_prod([made[weight] for weight in term]) for term in terms])
            for name, terms in self.losses.items()
        }
        return GanGraph({network: SCOPES[network] for network in self.networks}, losses)

    def owned(self, networks: list[str], buffers: bool = False) -> set[str]:
        """Names of the weights, or the buffers, of some networks."""
        scopes = {SCOPES[network] for network in networks}
        if "one" in networks and "three" not in self.networks:
            scopes.add("a/b")
        return {
            weight.name
            for weight in self.weights
            if weight.scope in scopes and (weight.kind == "buffer") == buffers
        }

    def listed(self, update: dict) -> set[str]:
        """Names of the weights of an update's networks."""
        return self.owned(update["networks"])

    def reached(self, update: dict) -> set[str]:
        """Of those, the ones in its loss."""
        used = {weight.name for term in self.losses[update["loss"]] for weight in term}
        return used & self.listed(update)

    def _make(self, weight: Weight) -> tf.Tensor:
        name, start = f"v{weight.number}", np.full(weight.size, weight.start, np.float32)
        # One name scope however often it is entered: a plain variable's name begins with it.
        with v1.variable_scope(weight.scope, auxiliary_name_scope=False):
            with tf.name_scope(f"{weight.scope}/"):
                if weight.kind == "variable":
                    return tf.reduce_sum(tf.Variable(start, name=name))
            made = v1.get_variable(
                name,
                initializer=tf.constant(start),
                use_resource=weight.kind != "reference",
                trainable=weight.kind != "buffer",
            )
        if weight.kind == "buffer":
            made.assign_add(tf.ones_like(made))
        return tf.reduce_sum(made)


@st.composite
def cases(draw) -> Case:
    """Two or three scopes of one to three weights, some with a buffer; up to three stages."""
    scopes = draw(st.lists(st.sampled_from(list(SCOPES)), min_size=2, unique=True))
    # Scopes left over hold weights that are in no network.
    networks = draw(st.lists(st.sampled_from(scopes), min_size=1, unique=True))
    starts = st.sampled_from([0.5, 0.75, 1])
    kinds = st.lists(st.sampled_from(KINDS), min_size=1, max_size=3)
    weights = [
        Weight(SCOPES[scope], number, kind, draw(st.integers(1, 2)), draw(starts))
        for scope in scopes
        for number, kind in enumerate(draw(kinds) + draw(st.sampled_from([[], ["buffer"]])))
    ]
    trainable = [weight for weight in weights if weight.kind != "buffer"]
    terms = st.lists(st.sampled_from(trainable), min_size=1, max_size=3, unique=True)
    losses = draw(
        st.dictionaries(st.sampled_from("xyz"), st.lists(terms, min_size=1, max_size=3), min_size=1)
    )
    stages = {
        f"s{number}": {"steps": draw(st.integers(1, 2)), "updates": draw(updates(networks, losses))}
        for number in range(draw(st.integers(1, 3)))
    }
    return Case(tuple(networks), tuple(weights), losses, stages)


@st.composite
def updates(draw, networks: list[str], losses: dict) -> dict:
    """One or two updates that share no network."""
    shuffled = draw(st.permutations(networks))
    cut = draw(st.integers(1, len(networks)))
    end = draw(st.integers(cut, len(networks)))
    parts = [part for part in (shuffled[:cut], shuffled[cut:end]) if part]
    return {
        f"u{number}": {"loss": draw(st.sampled_from(sorted(losses))), "networks": part}
        for number, part in enumerate(parts)
    }


def train_case(case: Case, **update):
    """Trains a case, with something added to all its updates."""
    stages = {
        name: {
            "steps": stage["steps"],
            "updates": {key: {**value, **update} for key, value in stage["updates"].items()},
        }
        for name, stage in case.stages.items()
    }
    return train_alone(case.build, stages, {}, optimizer={"name": "sgd", "learning_rate": 1e-3})


@settings(max_examples=40, deadline=None)
@given(cases())
def test_what_the_ledger_calls_trained_moves_and_nothing_else(case):
    every = [update for stage in case.stages.values() for update in stage["updates"].values()]
    if any(case.listed(update) - case.reached(update) for update in every):
        check_refusal(case)
    if not all(case.reached(update) for update in every):
        return
    run = train_case(case, allow_unreached=["*"])
    for name, stage in case.stages.items():
        trained = {v for update in stage["updates"].values() for v in case.reached(update)}
        training = [n for update in stage["updates"].values() for n in update["networks"]]
        buffers = case.owned(training, buffers=True)
        states = run.states(name)
        assert {v for v, state in states.items() if state == "trained"} == trained
        assert {v for v, state in states.items() if state == "buffer updated"} == buffers
        assert run.moved(name) == trained | buffers


def check_refusal(case: Case) -> None:
    """The error has one line for each variable that is listed and not reached, by its name, or one
    for an update that reaches none."""
    with pytest.raises(ConfigError) as raised:
        train_case(case)
    lines = str(raised.value).splitlines()
    for name, stage in case.stages.items():
        for key, update in stage["updates"].items():
            own = [line for line in lines if line.startswith(f"{name}/{key}: ")]
            missed = case.listed(update) - case.reached(update)
            if not case.reached(update):
                assert len(own) == 1 and "trains nothing" in own[0]
            else:
                assert {line.split(" does not reach ")[1].split(",")[0] for line in own} == missed
