"""Train ops: how a turn's updates are made together, alike on all ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import horovod.tensorflow as hvd
import tensorflow as tf

from hvd_gan.config import Settings
from hvd_gan.engine.counters import Counters
from hvd_gan.engine.ledger import Ledger
from hvd_gan.engine.optimizers import learning_rate, make_optimizer
from hvd_gan.engine.plateau import PlateauWatch, make_plateau_watch
from hvd_gan.engine.schedules import total_loss
from hvd_gan.engine.stages import Stage, Update


@dataclass(frozen=True)
class TrainOp:
    """What the trainer runs for one turn of a stage.

    accumulate: a pass that is not the last of its step: gradients are kept, nothing moves.
    step: the last pass: gradients are reduced over ranks and applied, counters advance.
    report: scalars by name, fetched with `step`: `loss/NAME` averaged over ranks,
        `gradient_norm/UPDATE` after reduction and before clipping, `rate/UPDATE`. Equal on all
        ranks.
    checked: more scalars that are finite where all is well, equal on all ranks: sums over the
        buffers that a step updates, by what they are called in a message.
    wish, stop: a float32 scalar to feed, 1 where this rank wants the run to stop; and the bool
        scalar, fetched with `step` and equal on all ranks, whether any of them does. It rides on
        the losses' collective, so that agreeing costs a step nothing.
    plateau: bool scalar, whether the stage should end now, with steps left.
    """

    accumulate: tf.Operation
    step: tf.Operation
    report: dict[str, tf.Tensor]
    checked: dict[str, tf.Tensor]
    wish: tf.Tensor
    stop: tf.Tensor
    plateau: tf.Tensor


@dataclass(frozen=True)
class Gradients:
    """An update's optimizer with its reduced and clipped gradients, not yet applied."""

    update: Update
    optimizer: tf.compat.v1.train.Optimizer
    pairs: Sequence[tuple[tf.Tensor, tf.Variable]]
    norm: tf.Tensor
    rate: tf.Tensor


@dataclass(frozen=True)
class Parts:
    """What the train ops of all stages are made from."""

    ledger: Ledger
    buffers: Mapping[str, list[tf.Operation]]
    counters: Counters
    settings: Settings


def make_train_ops(stage: Stage, parts: Parts) -> tuple[TrainOp, ...]:
    """A train op for each turn of a stage, in order; a turn that comes round again is the same."""
    watch = make_plateau_watch(stage.name, stage.plateau) if stage.plateau else None
    made = {turn: _make_train_op(stage, turn, watch, parts) for turn in dict.fromkeys(stage.turns)}
    return tuple(made[turn] for turn in stage.turns)


def _make_train_op(
    stage: Stage, turn: tuple[Update, ...], watch: PlateauWatch | None, parts: Parts
) -> TrainOp:
    counters = parts.counters
    with tf.name_scope(f"train/{stage.name}"):
        factors = _rate_factors(turn)
        gradients = [_gradients(update, stage, factors, parts) for update in turn]
        updated = parts.ledger.updated_buffers(stage.name, turn)
        moved, checked = _update_buffers(updated, parts.buffers)
        # Whatever a step reads, before any update: else one network's update could reach the
        # weights that another's backward pass, a loss or an average of weights still reads.
        ready = [gradient.op for entry in gradients for gradient, _ in entry.pairs]
        ready += [term.loss.op for update in turn for term in update.terms]
        with tf.control_dependencies([*ready, moved]):
            applied = [_apply(entry) for entry in gradients]
        wish = tf.compat.v1.placeholder_with_default(tf.constant(0.0), (), "wish")
        passes = parts.settings.backward_passes_per_step
        report, stop, added, emptied = _mean_losses(turn, wish, passes)
        accumulate = tf.group(*applied, added)
        with tf.control_dependencies([accumulate]):
            step = tf.group(counters.advance(stage.name), emptied)
        plateau = tf.constant(False)
        if watch and f"loss/{watch.settings.loss}" in report:
            plateau = watch.observe(report[f"loss/{watch.settings.loss}"], counters.visit)
    for entry in gradients:
        report[f"gradient_norm/{entry.update.name}"] = entry.norm
        report[f"rate/{entry.update.name}"] = entry.rate
    return TrainOp(accumulate, step, report, checked, wish, stop, plateau)


def _mean_losses(
    turn: tuple[Update, ...], wish: tf.Tensor, passes: int
) -> tuple[dict[str, tf.Tensor], tf.Tensor, tf.Operation, tf.Operation]:
    """Each loss of a turn, averaged over passes and over ranks, and whether any rank has a wish: in
    one small collective that every rank fetches. And what every pass has to run, and what the last
    one has to run besides.
    """
    losses = {term.name: term.loss for update in turn for term in update.terms}
    # A loss that comes through a Python function has no shape of its own.
    values = tf.reshape(tf.stack(list(losses.values())), [len(losses)])
    added, emptied = tf.no_op(), tf.no_op()
    if passes > 1:
        # Local, like Horovod's sums of gradients: empty at every step's end, so never saved.
        total = tf.compat.v1.Variable(
            tf.zeros(values.shape, values.dtype),
            trainable=False,
            collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES],
            use_resource=True,
        )
        sums = total.assign_add(values, read_value=True)
        added, values = sums.op, tf.identity(sums) / passes
        with tf.control_dependencies([values]):
            emptied = total.assign(tf.zeros_like(values), read_value=False)
    *means, wishes = tf.unstack(hvd.allreduce(tf.concat([values, [wish]], 0), op=hvd.Average))
    report = {f"loss/{name}": mean for name, mean in zip(losses, means, strict=True)}
    return report, wishes > 0, added, emptied


def _rate_factors(turn: tuple[Update, ...]) -> dict[str, tf.Tensor]:
    """What the model multiplies the updates' rates by, from its scores' means over ranks."""
    factors = {update.name: update.rate_factor for update in turn if update.rate_factor}
    if not factors:
        return {}
    scores = tf.stack([factor.value for factor in factors.values()])
    means = tf.unstack(hvd.allreduce(scores, op=hvd.Average), num=len(factors))
    return {
        name: factor.shape(mean)
        for (name, factor), mean in zip(factors.items(), means, strict=True)
    }


def _gradients(
    update: Update, stage: Stage, factors: Mapping[str, tf.Tensor], parts: Parts
) -> Gradients:
    counters, settings = parts.counters, parts.settings
    # Read before the step is counted: the counter moves after all updates are applied.
    stage_step = counters.stages[stage.name]
    rate = learning_rate(update.optimizer, settings, counters.run, stage_step, stage.total_steps)
    rate = rate * factors.get(update.name, 1.0)
    optimizer = make_optimizer(update.name, update.optimizer, settings, rate)
    # Scaled for the wire alone: what is clipped, reported and applied is the gradient itself.
    loss = total_loss(update, stage_step) * settings.loss_scale
    pairs = optimizer.compute_gradients(loss, var_list=parts.ledger.var_list(update))
    variables = [variable for _, variable in pairs]
    # Dense: the norm of slices counts a row that was looked up twice as two rows.
    gradients = [tf.convert_to_tensor(gradient) / settings.loss_scale for gradient, _ in pairs]
    norm = tf.linalg.global_norm(gradients)
    if update.optimizer.clip_norm is not None:
        gradients, _ = tf.clip_by_global_norm(gradients, update.optimizer.clip_norm, use_norm=norm)
    return Gradients(update, optimizer, list(zip(gradients, variables, strict=True)), norm, rate)


def _apply(gradients: Gradients) -> tf.Operation:
    # The scope names the optimizer's variables that belong to no weight, such as Adam's powers.
    with tf.name_scope(f"train/{gradients.update.name}/"):
        return gradients.optimizer.apply_gradients(gradients.pairs)


def _update_buffers(
    names: list[str], updates: Mapping[str, list[tf.Operation]]
) -> tuple[tf.Operation, dict[str, tf.Tensor]]:
    """Runs the model's own updates of some buffers, then averages the floating ones over ranks.

    So all ranks hold the same moments after every step, and a checkpoint may be written at any.
    Returns their sums too: a moment can be infinite where losses and gradients are finite.
    """
    operations = [operation for name in names for operation in updates[name]]
    variables = [
        variable
        for variable in tf.compat.v1.global_variables()
        if variable.op.name in names and variable.dtype.base_dtype.is_floating
    ]
    with tf.control_dependencies(operations):
        means = [variable.read_value() for variable in variables]
    assigned = []
    if hvd.size() > 1 and variables:
        means = hvd.grouped_allreduce(means, op=hvd.Average)
        assigned = [variable.assign(mean) for variable, mean in zip(variables, means, strict=True)]
    sums = {
        f"buffer {variable.op.name}": tf.reduce_sum(tf.cast(mean, tf.float32))
        for variable, mean in zip(variables, means, strict=True)
    }
    return tf.group(*operations, *assigned), sums
