"""Checkpoints: every global variable at a step, written under another name and then renamed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf

from hvd_gan.config_base import ConfigError
from hvd_gan.engine.checkpoint_files import (
    PARTIAL,
    STATE,
    VARIABLES,
    DamagedError,
    Newest,
    State,
    checkpoints_in,
    left_in,
    newest_good,
    seal,
    set_aside,
    step_of,
    verified,
)
from hvd_gan.engine.program import Program
from hvd_gan.engine.writing import remove, sync_folder, writing


class Checkpoints:
    """The checkpoints of a run folder, `checkpoints/step-00001000/`, the newest `keep` of them.

    Made on every rank, inside the program's graph, so that graphs stay equal; all its methods are
    for rank 0 alone, the broadcast brings what it restored to the others.
    """

    def __init__(self, folder: Path, program: Program, keep: int) -> None:
        self._folder = folder
        self._keep = keep
        # The step whose checkpoint holds what the variables hold, if they have not moved since.
        self._at: int | None = None
        self._saver = tf.compat.v1.train.Saver(list(program.variables), max_to_keep=None)

    def save(self, session: tf.compat.v1.Session, state: State) -> Path:
        """Writes a checkpoint, and when it is on the disk drops the oldest beyond `keep`.

        Raises WriteError, and then leaves those that were there before.
        """
        final = self._folder / f"step-{state.step:08d}"
        # TensorFlow's Saver makes a ValueError of a folder that is gone.
        kinds = (tf.errors.OpError, ValueError)
        with writing(f"the checkpoint of step {state.step}", self._folder, *kinds):
            if self._at != state.step or not _is_good(final):
                self._write(session, state, final)
            self._at = state.step
            self._prune()
        return final

    def newest_good(self) -> Newest:
        """The newest checkpoint that can be trusted, for `restore`; damaged ones are set aside.

        Raises ConfigError if there are checkpoints, and none is good.
        """
        return newest_good(self._folder, aside=True)

    def standing(self) -> str:
        """Which checkpoint a job that cannot go on would be resumed from, as a person says it."""
        try:
            state = newest_good(self._folder).state
        except ConfigError:
            state = None
        if state is None:
            return "there is no good checkpoint"
        return f"the last good checkpoint, of step {state.step}, stands intact"

    def restore(self, session: tf.compat.v1.Session, checkpoint: Path) -> None:
        """Reads every variable. Raises ValueError where the checkpoint is of another graph."""
        try:
            self._saver.restore(session, str(checkpoint / VARIABLES))
            self._at = step_of(checkpoint)
        except (
            tf.errors.NotFoundError,
            tf.errors.InvalidArgumentError,
            tf.errors.DataLossError,
        ) as error:
            finding = str(error.message).splitlines()[0]
            raise ValueError(
                f"{checkpoint}: is whole, but does not fit this model and schedule ({finding}); "
                "give it the model that it is of, or start over with --fresh"
            ) from None

    def _write(self, session: tf.compat.v1.Session, state: State, final: Path) -> None:
        partial = self._folder / f"{PARTIAL}{state.step:08d}"
        try:
            for left_over in left_in(self._folder, PARTIAL):
                remove(left_over)
            partial.mkdir(parents=True)
            self._saver.save(
                session, str(partial / VARIABLES), write_meta_graph=False, write_state=False
            )
            (partial / STATE).write_text(state.model_dump_json(indent=1) + "\n")
            seal(partial)
            _make_room(final)
            partial.rename(final)
            sync_folder(self._folder)
        except BaseException:
            remove(partial)
            raise

    def _prune(self) -> None:
        for old in checkpoints_in(self._folder)[: -self._keep]:
            # Under the name of what is left over if the job ends in the middle of this.
            doomed = old.rename(self._folder / f"{PARTIAL}{step_of(old):08d}")
            remove(doomed)


def _is_good(checkpoint: Path) -> bool:
    try:
        verified(checkpoint)
    except DamagedError:
        return False
    return True


def _make_room(final: Path) -> None:
    """Moves away what has a checkpoint's name: damaged, or from before a return to an older one."""
    if final.exists() and _is_good(final):
        remove(final.rename(final.with_name(f"{PARTIAL}{final.name}")))
    elif final.exists():
        set_aside(final)


def read_values(checkpoint: Path) -> dict[str, np.ndarray]:
    """Every variable of a checkpoint, by name, without a graph."""
    reader = tf.train.load_checkpoint(str(checkpoint / VARIABLES))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
