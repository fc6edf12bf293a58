"""Steps that are not finite: what each policy leaves, against runs that never had such a step."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from hvd_gan.cluster.world import AgreedError
from hvd_gan.config import Settings
from hvd_gan.engine.checkpoint_files import State
from hvd_gan.engine.checkpoints import Checkpoints
from hvd_gan.engine.graph import GanGraph
from hvd_gan.engine.monitors.monitor import Monitor, Report
from hvd_gan.engine.monitors.saver import Saver
from hvd_gan.engine.numerics import make_policy
from hvd_gan.engine.program import make_program
from hvd_gan.engine.trainer import train
from tests.engine.alone import COUNTERS, stage
from tests.models.proofs import everything
from tests.models.tiny import start

v1 = tf.compat.v1
pytestmark = pytest.mark.usefixtures("horovod")
GOOD = [np.random.default_rng(n).uniform(size=(2, 32, 32, 3)).astype(np.float32) for n in range(12)]
BAD = np.full_like(GOOD[0], np.nan)
# Which row of the embedding is looked up.
BAD[:, 16, 16, 0] = 0.5
# Of its own: the process's shared pool is as large as its first session wanted.
ONE_THREAD = v1.ConfigProto(
    intra_op_parallelism_threads=1, inter_op_parallelism_threads=1, use_per_session_threads=True
)
MASK = np.pad(np.ones((2, 12, 12, 1), np.float32), [(0, 0), (10, 10), (10, 10), (0, 0)])
COMPLETION = stage(2, g=("completion", "generator, embedding"))
COMPLETION["updates"]["g"]["allow_unreached"] = ["generator/branch"]


def schedule(first: int, second: int) -> dict:
    joint = stage(second, d=("discriminator", "discriminator"), g=("joint", "generator, embedding"))
    return {"completion": {**COMPLETION, "steps": first}, "joint": joint}


class Sequence:
    """A feed of given images, one array a pass."""

    def __init__(self, images: list[np.ndarray], settings: Settings) -> None:
        self._images = images
        self._pass = settings.batch // settings.backward_passes_per_step
        self._next = 0
        image = tf.numpy_function(self._draw, [], tf.float32)
        self.tensors = {"image": tf.ensure_shape(image, BAD.shape), "mask": tf.constant(MASK)}

    def seek(self, session, position: int) -> None:
        self._next = position // self._pass

    def error(self) -> None:
        """Nothing goes wrong."""

    def _draw(self) -> np.ndarray:
        self._next += 1
        return self._images[self._next - 1]


class Seen(Monitor):
    """Notes each step as (step, its values, skipped), and rollbacks as the step gone back to."""

    def __init__(self) -> None:
        self.notes: list = []

    def after_step(self, report) -> None:
        self.notes.append((report.step, dict(report.values), report.skipped))

    def rolled_back(self, step: int) -> None:
        self.notes.append(step)


def run(images, stages, folder=None, build=everything, passes=1, **more):
    """Trains on a sequence of images. Returns all variables, what was seen, and what was said."""
    plain = {"optimizer": {"name": "adam", "learning_rate": 0.05}, "stages": stages}
    counts = {"batch": 2 * passes, "backward_passes_per_step": passes}
    settings = Settings.model_validate({**plain, **counts, **more})
    seen, said = Seen(), []
    world = SimpleNamespace(on_root=lambda function: function())
    with tf.Graph().as_default() as graph:
        feed = Sequence(images, settings)
        program = make_program(build, feed, {}, settings)
        monitors = [seen]
        if folder:
            checkpoints = Checkpoints(folder, program, keep=3)
            monitors.append(Saver(lambda r: checkpoints.save(session, state(r)), every=2))

        def restore() -> str:
            newest = checkpoints.newest_good().checkpoint
            checkpoints.restore(session, newest)
            return newest.name

        with v1.Session(graph=graph, config=ONE_THREAD) as session:
            session.run(program.initialize)
            session.run(program.broadcast)
            policy = make_policy(program, session, settings, world, restore, said.append)
            train(program, session, feed, settings, monitors, policy)
            return program.read(session), seen.notes, said


def state(report: Report) -> State:
    return State(
        step=report.step,
        stage=report.visit.label,
        stage_step=report.visit_step,
        schedule=(),
        ranks=1,
        images="",
    )


def assert_same(found: dict, expected: dict) -> None:
    """Bit by bit, all but the counters."""
    for name in expected:
        if not name.startswith(COUNTERS):
            np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


SKIP = {"numerics": {"not_finite": "skip"}}
ROLLBACK = {"numerics": {"not_finite": "rollback"}}


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("where", [0, 3, 5], ids=["first", "joint", "last"])
def test_a_skipped_step_leaves_no_bit_behind(passes, where):
    """Weights, an embedding, slots, an integer that counts passes: as if it had not been."""
    steps = [[GOOD[passes * n + k] for k in range(passes)] for n in range(5)]
    without = [image for step in steps for image in step]
    # Of several passes, the first is bad and the last is good.
    poisoned = [BAD, *GOOD[-passes + 1 :]] if passes > 1 else [BAD]
    with_it = [image for step in [*steps[:where], poisoned, *steps[where:]] for image in step]
    early = where < 2
    found, notes, said = run(with_it, schedule(2 + early, 4 - early), passes=passes, **SKIP)
    expected, _, _ = run(without, schedule(2, 3), passes=passes)
    assert_same(found, expected)
    assert [note[2] for note in notes] == [n == where for n in range(6)]
    assert [note[1] == {} for note in notes] == [n == where for n in range(6)]
    assert found["hvd_gan/steps"] == 6
    assert len(said) == 1 and f"step {where + 1}," in said[0] and "1 in a row, 5 at most" in said[0]


def with_references(batch, settings, training) -> GanGraph:
    """A weight in a reference variable, whose memory a careless copy would share."""
    with v1.variable_scope("generator"):
        w = v1.get_variable("w", initializer=tf.constant(start("w", (3, 3))), use_resource=False)
        count = v1.get_variable("n", initializer=0.0, trainable=False, use_resource=False)
        count.assign_add(1.0)
    x = tf.reshape(batch["image"], [-1, 3]) @ w
    return GanGraph({"generator": "generator"}, {"completion": tf.reduce_mean(tf.square(x))})


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam", "adadelta", "rmsprop"])
def test_reference_variables_and_all_optimizers_slots_too(optimizer):
    more = {"build": with_references, "optimizer": {"name": optimizer, "learning_rate": 0.1}}
    of = lambda steps: {"a": stage(steps, g=("completion", "generator"))}  # noqa: E731
    found, _, _ = run([*GOOD[:2], BAD, *GOOD[2:4]], of(5), **more, **SKIP)
    expected, _, _ = run(GOOD[:4], of(4), **more)
    assert_same(found, expected)


def test_a_plateau_does_not_see_a_skipped_step():
    # Steps 1 and 3 are its first window: with step 2 among them it would end a step earlier.
    watched = {
        **schedule(9, 1)["completion"],
        "plateau": {"loss": "completion", "window": 2, "patience": 1, "min_delta": 100},
    }
    of = {"completion": watched, "joint": schedule(1, 1)["joint"]}
    found, notes, _ = run([GOOD[0], BAD, *GOOD[1:]], of, **SKIP)
    expected, undisturbed, _ = run(GOOD, of)
    assert len(notes) == len(undisturbed) + 1 == 6
    assert_same(found, expected)
    assert found["hvd_gan/plateau_completion/seen"] == 4


def test_so_many_in_a_row_and_no_more():
    more = {"numerics": {"not_finite": "skip", "at_most": 2}}
    _, notes, _ = run([GOOD[0], BAD, BAD, GOOD[1], BAD, BAD, *GOOD[2:4]], schedule(8, 0), **more)
    assert sum(note[2] for note in notes) == 4
    with pytest.raises(AgreedError) as raised:
        run([GOOD[0], BAD, BAD, BAD, *GOOD], schedule(8, 0), **more)
    assert "step 4, stage completion: loss/completion is nan" in str(raised.value)
    assert "in the 2 steps before, which were skipped" in str(raised.value)


@pytest.mark.parametrize("passes", [1, 2])
def test_a_rollback_leaves_the_run_that_had_other_samples(passes, tmp_path):
    """From the checkpoint of step 2 on: the samples of steps 3 and 4 are left out."""
    good = lambda first, last: GOOD[first * passes : last * passes]  # noqa: E731
    bad = [BAD, *GOOD[-passes + 1 :]] if passes > 1 else [BAD]
    images = [*good(0, 3), *bad, *good(2, 5)]
    found, notes, said = run(images, schedule(4, 1), tmp_path, passes=passes, **ROLLBACK)
    expected, _, _ = run([*good(0, 2), *good(2, 5)], schedule(4, 1), passes=passes)
    assert_same(found, expected)
    steps = [note if isinstance(note, int) else f"step {note[0]}" for note in notes]
    assert steps == ["step 1", "step 2", "step 3", 2, "step 3", "step 4", "step 5"]
    assert found["hvd_gan/steps"] == 5 and found["hvd_gan/moved_on"] == 2
    assert said[0].startswith("step 4, stage completion: loss/completion is nan")
    assert said[1].startswith("rolled back to step-00000002")


def test_a_rollback_goes_back_to_the_end_of_the_stage_before(tmp_path):
    images = [*GOOD[:3], BAD, BAD, *GOOD[3:5]]
    found, notes, _ = run(images, schedule(3, 2), tmp_path, **ROLLBACK)
    expected, _, _ = run(GOOD[:5], schedule(3, 2))
    assert_same(found, expected)
    assert [note for note in notes if isinstance(note, int)] == [3, 3]


def test_so_many_rollbacks_without_getting_past_the_step_and_no_more(tmp_path):
    more = {"numerics": {"not_finite": "rollback", "at_most": 2}}
    # Step 6 fails, then twice step 5 before it: three times, and step 6 is not made.
    images = [*GOOD[:5], BAD, BAD, BAD, *GOOD[5:]]
    with pytest.raises(AgreedError) as raised:
        run(images, schedule(9, 0), tmp_path / "a", **more)
    assert "step 5, stage completion: loss/completion is nan" in str(raised.value)
    assert "2 rollbacks have not led past step 6" in str(raised.value)
    # Where step 6 is made, the count begins anew.
    images = [*GOOD[:5], BAD, BAD, *GOOD[:2], BAD, BAD, *GOOD[:3]]
    found, notes, _ = run(images, schedule(9, 0), tmp_path / "b", **more)
    assert [note for note in notes if isinstance(note, int)] == [4, 4, 6, 6]
    assert found["hvd_gan/steps"] == 9


def test_a_power_of_two_as_loss_scale_changes_no_bit():
    plain, notes, _ = run(GOOD[:5], schedule(2, 3))
    scaled, other, _ = run(GOOD[:5], schedule(2, 3), loss_scale=2.0**12)
    assert_same(scaled, plain)
    assert notes == other


def test_losses_are_means_over_all_passes():
    _, notes, _ = run(GOOD[:4], schedule(1, 1), passes=2)
    _, singly, _ = run(GOOD[:2], schedule(2, 0), optimizer={"name": "sgd", "learning_rate": 1e-30})
    halves = [note[1]["loss/completion"] for note in singly]
    assert notes[0][1]["loss/completion"] == pytest.approx(np.mean(halves), rel=1e-6)
    assert halves[0] != halves[1]
