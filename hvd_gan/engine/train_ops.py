"""Train ops: how a stage's updates are made together, alike on all ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import horovod.tensorflow as hvd
import tensorflow as tf

from hvd_gan.config import Settings
from hvd_gan.engine.counters import Counters
from hvd_gan.engine.ledger import Ledger
from hvd_gan.engine.optimizers import make_optimizer
from hvd_gan.engine.stages import Stage, Update


@dataclass(frozen=True)
class TrainOp:
    """What the trainer runs for one stage.

    accumulate: a pass that is not the last of its step: gradients are kept, nothing moves.
    step: the last pass: gradients are reduced over ranks and applied, counters advance.
    report: scalars by name, fetched with `step`: `loss/NAME` averaged over ranks,
        `gradient_norm/UPDATE` after reduction and before clipping. Equal on all ranks.
    """

    stage: Stage
    accumulate: tf.Operation
    step: tf.Operation
    report: dict[str, tf.Tensor]


@dataclass(frozen=True)
class Gradients:
    """An update's optimizer with its reduced and clipped gradients, not yet applied."""

    update: Update
    optimizer: tf.compat.v1.train.Optimizer
    pairs: Sequence[tuple[tf.Tensor, tf.Variable]]
    norm: tf.Tensor


def make_train_op(
    stage: Stage,
    ledger: Ledger,
    buffers: Mapping[str, list[tf.Operation]],
    counters: Counters,
    settings: Settings,
) -> TrainOp:
    """The train op of a stage, over the var_lists of the ledger."""
    with tf.name_scope(f"train/{stage.name}"):
        gradients = [_gradients(update, ledger, settings, counters) for update in stage.updates]
        names = ledger.updated_buffers(stage.name)
        moved = _update_buffers({name: buffers[name] for name in names})
        # Every gradient before any update: else one network's update could reach the weights that
        # another's backward pass still reads.
        ready = [gradient for entry in gradients for gradient, _ in entry.pairs]
        with tf.control_dependencies([gradient.op for gradient in ready]):
            applied = [_apply(entry) for entry in gradients]
        accumulate = tf.group(*applied, moved)
        with tf.control_dependencies([accumulate]):
            step = counters.advance(stage.name)
        losses = dict.fromkeys(update.loss_name for update in stage.updates)
        values = {update.loss_name: update.loss for update in stage.updates}
        # One small collective a step; every rank fetches it with the step.
        means = tf.unstack(hvd.allreduce(tf.stack([values[name] for name in losses]), name=None))
    report = {f"loss/{name}": mean for name, mean in zip(losses, means, strict=True)}
    for update, entry in zip(stage.updates, gradients, strict=True):
        report[f"gradient_norm/{update.name}"] = entry.norm
    return TrainOp(stage, accumulate, step, report)


def _gradients(update: Update, ledger: Ledger, settings: Settings, counters: Counters) -> Gradients:
    optimizer = make_optimizer(update.name, update.optimizer, settings, counters.run)
    pairs = optimizer.compute_gradients(update.loss, var_list=ledger.var_list(update))
    gradients, variables = zip(*pairs, strict=True)
    norm = tf.linalg.global_norm(gradients)
    if update.optimizer.clip_norm is not None:
        gradients, _ = tf.clip_by_global_norm(gradients, update.optimizer.clip_norm, use_norm=norm)
    return Gradients(update, optimizer, list(zip(gradients, variables, strict=True)), norm)


def _apply(gradients: Gradients) -> tf.Operation:
    # The scope names the optimizer's variables that belong to no weight, such as Adam's powers.
    with tf.name_scope(f"train/{gradients.update.name}/"):
        return gradients.optimizer.apply_gradients(gradients.pairs)


def _update_buffers(updates: Mapping[str, list[tf.Operation]]) -> tf.Operation:
    """Runs the model's own buffer updates, then averages the floating ones over ranks.

    So all ranks hold the same moments after every step, and a checkpoint may be written at any.
    """
    operations = [operation for group in updates.values() for operation in group]
    variables = [
        variable
        for variable in tf.compat.v1.global_variables()
        if variable.op.name in updates and variable.dtype.base_dtype.is_floating
    ]
    if hvd.size() == 1 or not variables:
        return tf.group(*operations)
    with tf.control_dependencies(operations):
        values = [variable.read_value() for variable in variables]
    means = hvd.grouped_allreduce(values, op=hvd.Average)
    assigned = [variable.assign(mean) for variable, mean in zip(variables, means, strict=True)]
    return tf.group(*operations, *assigned)
