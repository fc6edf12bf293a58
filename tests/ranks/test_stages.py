"""Each stage moves exactly what the ledger says, on all ranks alike."""

from __future__ import annotations

import numpy as np
import pytest

from tests.launch import TINY, launch
from tests.ranks.runs import metrics, values

pytestmark = pytest.mark.ranks
GENERATOR = {"generator/in", "generator/bias", "generator/out"}
GENERATOR |= {"generator/norm/scale", "generator/norm/offset"}
MOMENTS = {"generator/norm/moving_mean", "generator/norm/moving_variance"}
DISCRIMINATOR = {"discriminator/in", "discriminator/out"}
RANKS = 2


def slots(variables: set[str], update: str) -> set[str]:
    """Adam's two moments of each variable, and its two powers."""
    optimizer = update.replace("/", "_")
    names = {f"{v}/{optimizer}{suffix}" for v in variables for suffix in ("", "_1")}
    return names | {f"train/{update}/beta{power}_power" for power in (1, 2)}


MOVED = {
    "completion": GENERATOR | MOMENTS | slots(GENERATOR, "completion/generator"),
    "discriminator": DISCRIMINATOR | slots(DISCRIMINATOR, "discriminator/discriminator"),
    "joint": GENERATOR
    | MOMENTS
    | DISCRIMINATOR
    | slots(GENERATOR, "joint/generator")
    | slots(DISCRIMINATOR, "joint/discriminator"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stages")
    settings = (*TINY, "model.settings={norm: plain}", "verify=true", "log_every=1")
    done = launch(
        "mpirun", RANKS, "-m", "tests.ranks.programs.dump", "--run", str(folder / "run"), *settings
    )
    assert done.code == 0, done.output
    return folder


@pytest.mark.parametrize("stage", MOVED)
def test_a_stage_moves_its_variables_and_no_others(folder, stage):
    for rank in range(RANKS):
        before = np.load(folder / f"before-{stage}-rank{rank}.npz")
        after = np.load(folder / f"after-{stage}-rank{rank}.npz")
        moved = {name for name in after.files if not np.array_equal(before[name], after[name])}
        assert moved == MOVED[stage] | {
            "hvd_gan/steps",
            f"hvd_gan/steps_{stage}",
            "hvd_gan/visit_steps",
        } | ({"hvd_gan/visit"} & moved)


@pytest.mark.parametrize("stage", MOVED)
def test_ranks_hold_the_same_variables_after_a_stage(folder, stage):
    one, other = (np.load(folder / f"after-{stage}-rank{rank}.npz") for rank in range(RANKS))
    assert one.files == other.files
    for name in one.files:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def test_counters_end_at_the_stages_steps_and_their_sum(folder):
    saved = values(folder / "run")
    counters = {name: int(value) for name, value in saved.items() if name.startswith("hvd_gan/")}
    assert counters == {
        "hvd_gan/moved_on": 0,
        "hvd_gan/steps": 12,
        "hvd_gan/steps_completion": 5,
        "hvd_gan/steps_discriminator": 3,
        "hvd_gan/steps_joint": 4,
        "hvd_gan/visit": 2,
        "hvd_gan/visit_steps": 4,
    }


def test_a_step_reports_the_losses_of_its_stage(folder):
    reported = {
        line["stage"]: {key for key in line if key[:5] == "loss/"}
        for line in metrics(folder / "run")
    }
    assert reported == {
        "completion": {"loss/completion"},
        "discriminator": {"loss/discriminator"},
        "joint": {"loss/discriminator", "loss/joint"},
    }
