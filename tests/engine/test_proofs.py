"""What staged training stumbles over gives the right ledger, and the right error or result."""

from __future__ import annotations

from itertools import repeat

import numpy as np
import pytest

from hvd_gan.config_base import ConfigError
from tests.engine.alone import stage, train_alone
from tests.engine.plain_sgd import train_plainly
from tests.models.proofs import ROWS, everything, integer_weight

pytestmark = pytest.mark.usefixtures("horovod")
RATE = 0.1
RNG = np.random.default_rng(0)
BATCH = {
    "image": RNG.uniform(size=(6, 32, 32, 3)).astype(np.float32),
    "mask": np.pad(np.ones((6, 12, 12, 1), np.float32), [(0, 0), (10, 10), (10, 10), (0, 0)]),
}
COMPLETION = stage(3, g=("completion", "generator, embedding"))
COMPLETION["updates"]["g"]["allow_unreached"] = ["generator/branch"]
SCHEDULE = {
    "completion": COMPLETION,
    "discriminator": stage(2, d=("discriminator", "discriminator")),
    "joint": stage(3, d=("discriminator", "discriminator"), g=("joint", "generator, embedding")),
}
GENERATOR = ("generator", "embedding")
MOVES = {
    "completion": (3, [("completion", GENERATOR)]),
    "discriminator": (2, [("discriminator", ("discriminator",))]),
    "joint": (3, [("discriminator", ("discriminator",)), ("joint", GENERATOR)]),
}


def expected(**more):
    return train_plainly(everything, MOVES, repeat(BATCH), lambda loss: RATE, **more)


def assert_has_weights(run, weights, tolerance: float = 1e-6) -> None:
    for name, values in weights.items():
        for variable, value in values.items():
            np.testing.assert_allclose(
                run.after[name][variable], value, atol=tolerance, err_msg=f"{name}: {variable}"
            )


@pytest.fixture(scope="module")
def run(horovod):
    return train_alone(everything, SCHEDULE, BATCH)


def test_a_branch_that_only_the_joint_loss_reaches_is_refused_before_the_joint_stage():
    with pytest.raises(ConfigError) as raised:
        train_alone(everything, {"a": stage(1, g=("completion", "generator"))}, BATCH)
    [line] = str(raised.value).splitlines()
    assert line.startswith("a/g: loss 'completion' does not reach generator/branch,")


def test_the_ledger_has_every_variable_of_every_stage(run):
    assert run.states("completion") == {
        "embedding/table": "trained",
        "generator/passes": "buffer updated",
        "generator/coarse": "trained",
        "generator/branch": "unreached",
        "fixed/projection": "buffer held",
        "discriminator/in": "frozen",
        "discriminator/out": "frozen",
    }
    assert run.states("discriminator") == {
        "embedding/table": "frozen",
        "generator/passes": "buffer held",
        "generator/coarse": "frozen",
        "generator/branch": "frozen",
        "fixed/projection": "buffer held",
        "discriminator/in": "trained",
        "discriminator/out": "trained",
    }
    assert run.states("joint") == {
        "embedding/table": "trained",
        "generator/passes": "buffer updated",
        "generator/coarse": "trained",
        "generator/branch": "trained",
        "fixed/projection": "buffer held",
        "discriminator/in": "trained",
        "discriminator/out": "trained",
    }
    assert run.ledger.warnings() == []


@pytest.mark.parametrize("name", SCHEDULE)
def test_a_stage_moves_what_the_ledger_says(run, name):
    states = run.states(name)
    moving = {variable for variable in states if states[variable] in ("trained", "buffer updated")}
    assert run.moved(name) == moving


def test_all_of_it_trains_as_written_out_in_numpy(run):
    oracle = expected()
    assert_has_weights(run, oracle.weights)
    for name, steps in oracle.losses.items():
        for report, losses in zip(run.reports[name], steps, strict=True):
            told = {loss: report[f"loss/{loss}"] for loss in losses}
            assert told == pytest.approx(losses, rel=1e-5)


def test_only_rows_that_are_looked_up_move(run):
    before, after = run.before["completion"], run.after["joint"]
    rows = np.any(before["embedding/table"] != after["embedding/table"], axis=1)
    used = set((BATCH["image"][:, 16, 16, 0] * (ROWS - 1.01)).astype(int))
    assert set(np.flatnonzero(rows)) == used and len(used) < len(BATCH["image"])


def test_an_integer_counts_the_steps_of_its_network(run):
    passes = {name: int(values["generator/passes"]) for name, values in run.after.items()}
    assert passes == {"completion": 3, "discriminator": 3, "joint": 6}


def test_the_norm_of_a_sparse_gradient_is_that_of_the_dense_one(run):
    for name, steps in expected().norms.items():
        for report, norms in zip(run.reports[name], steps, strict=True):
            for loss, norm in norms.items():
                update = "d" if loss == "discriminator" else "g"
                assert report[f"gradient_norm/{name}/{update}"] == pytest.approx(norm, rel=1e-5)


@pytest.mark.parametrize("passes", [1, 2])
def test_clipping_and_accumulation_treat_a_sparse_gradient_as_the_dense_one(passes):
    optimizer = {"name": "sgd", "learning_rate": RATE, "clip_norm": 0.05}
    more = {"optimizer": optimizer, "backward_passes_per_step": passes}
    run = train_alone(everything, SCHEDULE, BATCH, **more)
    assert_has_weights(run, expected(clip=0.05).weights)


def test_a_variable_that_two_updates_of_a_step_would_move_is_refused():
    both = stage(
        1,
        d=("discriminator", "discriminator, embedding"),
        g=("joint", "generator, embedding"),
    )
    with pytest.raises(ConfigError) as raised:
        train_alone(everything, {"joint": both}, BATCH)
    assert "joint/d and joint/g of one step both move embedding/table" in str(raised.value)


@pytest.mark.parametrize("networks", ["fixed", "generator, fixed"])
def test_a_network_without_trainable_variables_cannot_be_trained(networks):
    with pytest.raises(ConfigError) as raised:
        train_alone(everything, {"a": stage(1, g=("joint", networks))}, BATCH)
    assert "stages.a.updates.g.networks: no trainable variable stands under fixed/" in str(
        raised.value
    )


def test_a_trainable_integer_is_refused_by_its_name():
    schedule = {"a": stage(1, g=("completion", "generator"))}
    with pytest.raises(ConfigError) as raised:
        train_alone(integer_weight, schedule, BATCH)
    [line] = str(raised.value).splitlines()
    assert "generator/step" in line and "generator/w" not in line
    schedule["a"]["updates"]["g"]["allow_unreached"] = ["generator/step"]
    run = train_alone(integer_weight, schedule, BATCH)
    assert run.moved("a") == {"generator/w"}
