"""A fault of one rank is every rank's, and leaves no bit behind."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from hvd_gan.data.samples import Sampler
from hvd_gan.data.source import open_source
from hvd_gan.engine.checkpoints import checkpoints_in
from tests.launch import launch, slow, train, trained
from tests.ranks.runs import assert_close, metrics, values, weights
from tests.ranks.test_equivalence import DATA, SCHEDULE
from tests.ranks.towers import train_towers

pytestmark = pytest.mark.ranks
COMPLETION = {"updates": {"g": {"loss": "completion", "networks": ["generator"]}}}
BOTH = {
    "d": {"loss": "discriminator", "networks": ["discriminator"]},
    "g": {"loss": "joint", "networks": ["generator"]},
}
FP16 = {"compression": "fp16"}
PASSES = {"backward_passes_per_step": 2, "batch": 8}


def case(stage=COMPLETION, rank=1, settings=None, optimizer=None, **model) -> dict:
    own = {"batch": 4, **(settings or {})}
    return {
        "stage": stage,
        "rank": rank,
        "settings": own,
        "optimizer": optimizer or {},
        "model": model,
    }


# What the fault is, and which value tells of it; none where the step stands.
CASES = {
    "loss": (case(), "loss/completion is nan"),
    "loss on rank 0": (case(rank=0, value="inf"), "loss/completion is inf"),
    "gradient": (case(where="gradient"), "gradient_norm/a/g is nan"),
    "infinite gradient": (case(where="gradient", value="-inf"), "gradient_norm/a/g is "),
    "clipped": (case(where="gradient", optimizer={"clip_norm": 0.1}), "gradient_norm/a/g is nan"),
    "fp16": (case(where="gradient", settings=FP16), "gradient_norm/a/g is nan"),
    "fp16 overflow": (case(where="gradient", value="1e9", settings=FP16), "gradient_norm/a/g is "),
    "no overflow without": (case(where="gradient", value="1e9"), None),
    "fp16 scaled": (
        case(where="gradient", value="1e9", settings={**FP16, "loss_scale": 2.0**-24}),
        None,
    ),
    "first pass": (case(where="gradient", settings=PASSES), "gradient_norm/a/g is nan"),
    "first pass's loss": (case(value="inf", settings=PASSES), "loss/completion is inf"),
    "first pass, fp16": (
        case(where="gradient", value="1e9", settings={**PASSES, **FP16}),
        "gradient_norm/a/g is ",
    ),
    "plain norm": (case(norm="plain"), "loss/completion is nan"),
    "sync norm": (case(norm="sync", where="gradient"), "gradient_norm/a/g is nan"),
    "moment": (case(where="buffer"), "buffer generator/moment is nan"),
    "moment in the first pass": (
        case(where="buffer", value="inf", settings=PASSES),
        "buffer generator/moment is inf",
    ),
    "joint": (case({"updates": BOTH}, loss="joint", where="gradient"), "gradient_norm/a/g is nan"),
    # The second step is the generator's turn.
    "its turn": (
        case({"updates": BOTH, "alternate": {"d": 1, "g": 1}}, loss="joint"),
        "loss/joint is nan",
    ),
    "another's turn": (
        case({"updates": BOTH, "alternate": {"d": 1, "g": 1}}, loss="discriminator"),
        None,
    ),
}


@pytest.mark.parametrize("launcher", ["mpirun", slow("gloo")])
def test_all_ranks_skip_what_one_rank_has_wrong(launcher):
    chosen = [fault for fault, _ in CASES.values()]
    done = launch(launcher, 2, "-m", "tests.ranks.programs.poisoned", json.dumps(chosen))
    assert done.code == 0, done.output
    lines = [line.split("CASE ")[1] for line in done.output.splitlines() if "CASE " in line]
    assert len(lines) == len(CASES), done.output
    for (name, (_, told)), line in zip(CASES.items(), lines, strict=True):
        found = json.loads(line)
        assert found["same"], name
        for rank in found["ranks"]:
            assert rank["skipped"] == ([2] if told else []), (name, rank)
            if told:
                assert told in rank["said"][0], (name, rank)
                # Turns go by the step's number, so a run without that step has others.
                assert rank["as_if_never"] or "turn" in name, (name, rank)


def poison(*positions: int, where: str = "gradient") -> tuple[str, ...]:
    """The model with a fault in the samples at some positions of the run."""
    sampler = Sampler(open_source(DATA, "train"), DATA, seed=1)
    seeds = [sampler.sample(position).noise_seed.tolist() for position in positions]
    settings = f"model.settings={json.dumps({'seeds': seeds, 'where': where})}"
    return "model.build=tests.models.poisoned:build", settings


EVERY = ("log_every=1", "checkpoints={every: 2, keep: 100}")


def test_a_run_skips_a_step_and_says_so(tmp_path):
    # Batches of 12: position 41 is in the fourth, on rank 1.
    skip = "numerics.not_finite=skip"
    done = train("mpirun", 2, tmp_path / "run", *poison(41), *EVERY, skip, "checkpoints.every=1")
    assert done.code == 0, done.output
    assert "step 4, stage completion: gradient_norm/completion/generator is nan" in done.output
    before, after = values(tmp_path / "run", 3), values(tmp_path / "run", 4)
    changed = {name for name in after if not np.array_equal(before[name], after[name])}
    assert changed == {"hvd_gan/steps", "hvd_gan/steps_completion", "hvd_gan/visit_steps"}
    lines = metrics(tmp_path / "run")
    assert [line["step"] for line in lines] == list(range(1, 13))
    assert [line.get("skipped", 0) for line in lines] == [0, 0, 0, 1, *[0] * 8]
    adam = lambda: tf.compat.v1.train.AdamOptimizer(0.01, beta1=0.5, beta2=0.999)  # noqa: E731
    expected = train_towers(2, adam, SCHEDULE, DATA, batch=12, skipped=[4])
    assert_close(weights(tmp_path / "run"), expected)


def test_too_many_in_a_row_stop_all_ranks(tmp_path):
    settings = ("numerics={not_finite: skip, at_most: 2}", "checkpoints.every=1")
    done = train("mpirun", 2, tmp_path / "run", *poison(12, 25, 36), *settings)
    assert done.code == 2
    assert "step 4, stage completion" in done.last_line, done.output
    assert "in the 2 steps before, which were skipped, and numerics.at_most is 2" in done.last_line


ROLLBACK = (*EVERY, "numerics.not_finite=rollback")


@pytest.fixture(scope="module")
def rolled_back(tmp_path_factory):
    """Step 4 fails and goes back to the checkpoint of step 2; so does the next step 3."""
    run = tmp_path_factory.mktemp("rollback") / "run"
    done = train("mpirun", 2, run, *poison(41, 50), *ROLLBACK)
    assert done.code == 0, done.output
    return run, done.output


def test_a_run_rolls_back_and_goes_on_with_other_samples(rolled_back):
    run, output = rolled_back
    assert "step 4, stage completion: gradient_norm/completion/generator is nan" in output
    assert "step 3, stage completion: gradient_norm/completion/generator is nan" in output
    assert "(2 in a row, 5 at most)" in output
    assert output.count("rolled back to step-00000002") == 2
    assert [line["step"] for line in metrics(run)] == list(range(1, 13))
    assert int(values(run)["hvd_gan/moved_on"]) == 3
    adam = lambda: tf.compat.v1.train.AdamOptimizer(0.01, beta1=0.5, beta2=0.999)  # noqa: E731
    # Batches 3 and 4 were drawn before it failed, 5 after: 12 steps are made of 15 batches.
    longer = {**SCHEDULE, "completion": 5 + 3}
    assert_close(weights(run), train_towers(2, adam, longer, DATA, batch=12, skipped=[3, 4, 5]))


@pytest.mark.slow
@pytest.mark.parametrize("step", [slow(2), 4])
def test_resuming_after_or_before_a_rollback_is_exact(rolled_back, step, tmp_path):
    whole, _ = rolled_back
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    for checkpoint in checkpoints_in(run / "checkpoints"):
        if int(checkpoint.name.removeprefix("step-")) > step:
            shutil.rmtree(checkpoint)
    trained("mpirun", 2, run, *poison(41, 50), *ROLLBACK)
    expected, found = values(whole), values(run)
    assert expected.keys() == found.keys()
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
    assert [line["step"] for line in metrics(run)] == list(range(1, 13))


def test_before_the_first_checkpoint_a_run_rolls_back_to_its_beginning(tmp_path):
    done = train("mpirun", 2, tmp_path / "run", *poison(13), "numerics.not_finite=rollback")
    assert done.code == 0, done.output
    assert "rolled back to step-00000000" in done.output
    assert int(values(tmp_path / "run")["hvd_gan/moved_on"]) == 2
    assert int(values(tmp_path / "run")["hvd_gan/steps"]) == 12


@pytest.mark.slow
def test_rollbacks_that_lead_nowhere_stop_all_ranks(tmp_path):
    settings = ("numerics={not_finite: rollback, at_most: 2}",)
    done = train("mpirun", 2, tmp_path / "run", *poison(1, 13, 25), *settings)
    assert done.code == 2
    assert "2 rollbacks have not led past step 1" in done.last_line, done.output


@pytest.mark.slow
def test_a_policy_may_change_on_resuming_and_a_loss_scale_may_not(tmp_path):
    run = tmp_path / "run"
    assert train("mpirun", 2, run, *poison(41), *EVERY).code == 2
    refused = train("single", 1, run, *poison(41), *EVERY, "loss_scale=2")
    assert refused.code == 2 and "loss_scale: 1.0 -> 2.0" in refused.output
    done = train("mpirun", 2, run, *poison(41), *EVERY, "numerics.not_finite=skip")
    assert done.code == 0, done.output
    assert "resumed after step 2" in done.output and "this step is skipped" in done.output
