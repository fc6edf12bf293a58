"""Checkpoints: every global variable at a step, written under another name and then renamed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import tensorflow as tf

from hvd_gan.engine.program import Program

STATE = "state.json"
VARIABLES = "variables"


class Checkpoints:
    """The checkpoints of a run folder, `checkpoints/step-00001000/`, the newest `keep` of them.

    Made on every rank, inside the program's graph, so that graphs stay equal; `save` and `restore`
    are for rank 0 alone, the broadcast brings what it restored to the others.
    """

    def __init__(self, folder: Path, program: Program, keep: int) -> None:
        self._folder = folder
        self._keep = keep
        self._saver = tf.compat.v1.train.Saver(list(program.variables), max_to_keep=None)

    def save(self, session: tf.compat.v1.Session, step: int, state: dict) -> Path:
        """Writes a checkpoint with a note on its state, then drops the oldest beyond `keep`."""
        final = self._folder / f"step-{step:08d}"
        if final.exists():
            return final
        for left_over in self._folder.glob("partial-*"):
            shutil.rmtree(left_over)
        partial = self._folder / f"partial-{step:08d}"
        partial.mkdir(parents=True)
        self._saver.save(
            session, str(partial / VARIABLES), write_meta_graph=False, write_state=False
        )
        (partial / STATE).write_text(json.dumps(state, indent=1) + "\n")
        partial.rename(final)
        for old in checkpoints_in(self._folder)[: -self._keep]:
            shutil.rmtree(old)
        return final

    def restore(self, session: tf.compat.v1.Session, checkpoint: Path) -> None:
        """Reads every variable. Raises ValueError where the checkpoint is of another graph."""
        try:
            self._saver.restore(session, str(checkpoint / VARIABLES))
        except (
            tf.errors.NotFoundError,
            tf.errors.InvalidArgumentError,
            tf.errors.DataLossError,
        ) as error:
            finding = str(error.message).splitlines()[0]
            raise ValueError(
                f"{checkpoint}: is damaged, or does not fit this model and schedule ({finding}); "
                "remove it to resume from the one before, or start over with --fresh"
            ) from None


def checkpoints_in(folder: Path) -> list[Path]:
    """The finished checkpoints of a folder, oldest first."""
    return sorted(path.parent for path in folder.glob(f"step-*/{STATE}"))


def read_state(checkpoint: Path) -> dict:
    """The note that was saved with a checkpoint."""
    return json.loads((checkpoint / STATE).read_text())


def read_values(checkpoint: Path) -> dict[str, np.ndarray]:
    """Every variable of a checkpoint, by name, without a graph."""
    reader = tf.train.load_checkpoint(str(checkpoint / VARIABLES))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
