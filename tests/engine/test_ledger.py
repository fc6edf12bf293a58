"""The ledger knows what each stage does to each variable."""

from __future__ import annotations

import pytest
import tensorflow as tf

from hvd_gan.config import Settings
from hvd_gan.config_base import ConfigError
from hvd_gan.engine.buffers import buffer_updates
from hvd_gan.engine.graph import GanGraph
from hvd_gan.engine.ledger import State, make_ledger
from hvd_gan.engine.stages import make_stages
from hvd_gan.models.layers import batch_norm

v1 = tf.compat.v1


def build() -> GanGraph:
    """A generator with batch norm and a branch that only the joint loss reaches; a discriminator;
    a network whose name begins like the generator's."""
    x = tf.ones([4, 3])
    with v1.variable_scope("generator"):
        weights = v1.get_variable("weights", [3, 3])
        branch = v1.get_variable("branch", [3, 3])
        plain = batch_norm(x @ weights, "norm", "plain", training=True)
        full = plain @ branch
    with v1.variable_scope("generator_critic"):
        v1.get_variable("weights", [1])
    with v1.variable_scope("discriminator"):
        logits = full @ v1.get_variable("weights", [3, 1])
    loss = {"completion": plain, "discriminator": logits, "joint": full + logits}
    networks = {name: name for name in ("generator", "discriminator", "generator_critic")}
    return GanGraph(networks, {name: tf.reduce_mean(value) for name, value in loss.items()})


def settings(**stages) -> Settings:
    """Stages of one step, with their updates called u0, u1, ..."""
    schedule = {
        name: {"steps": 1, "updates": {f"u{n}": update for n, update in enumerate(updates)}}
        for name, updates in stages.items()
    }
    return Settings.model_validate({"stages": schedule})


def update(loss: str, *networks: str, **more) -> dict:
    return {"loss": loss, "networks": networks, **more}


def ledger_of(**stages):
    with tf.Graph().as_default():
        gan = build()
        buffers = buffer_updates()
        return make_ledger(gan, make_stages(gan, settings(**stages)), buffers)


def states(ledger, stage: str) -> dict[str, State]:
    return {entry.variable.op.name: entry.state for entry in ledger.of_stage(stage)}


def test_every_variable_has_its_state_in_every_stage():
    ledger = ledger_of(
        d=[update("discriminator", "discriminator")],
        joint=[update("joint", "generator")],
    )
    still = {
        "generator/weights": State.FROZEN,
        "generator/branch": State.FROZEN,
        "generator/norm/scale": State.FROZEN,
        "generator/norm/offset": State.FROZEN,
        "generator/norm/moving_mean": State.HELD,
        "generator/norm/moving_variance": State.HELD,
        "generator_critic/weights": State.FROZEN,
        "discriminator/weights": State.TRAINED,
    }
    assert states(ledger, "d") == still
    moving = dict.fromkeys(["moving_mean", "moving_variance"], State.UPDATED)
    trained = dict.fromkeys(["weights", "branch", "norm/scale", "norm/offset"], State.TRAINED)
    trained = {f"generator/{name}": state for name, state in trained.items()}
    moving = {f"generator/norm/{name}": state for name, state in moving.items()}
    frozen = dict.fromkeys(["generator_critic/weights", "discriminator/weights"], State.FROZEN)
    assert states(ledger, "joint") == trained | moving | frozen


def test_an_unreached_variable_stops_the_run_and_names_variable_loss_and_cure():
    ledger = ledger_of(completion=[update("completion", "generator")])
    with pytest.raises(ConfigError) as raised:
        ledger.check()
    message = str(raised.value)
    assert "completion/u0: loss 'completion' does not reach generator/branch" in message
    assert "allow_unreached: ['generator/branch']" in message
    assert len(message.splitlines()) == 1


def test_an_unreached_variable_may_be_allowed_and_is_not_trained():
    ledger = ledger_of(
        completion=[update("completion", "generator", allow_unreached=["generator/br*"])]
    )
    ledger.check()
    [moves] = ledger.stages[0].updates
    assert "generator/branch" not in {v.op.name for v in ledger.var_list(moves)}
    assert len(ledger.var_list(moves)) == 3


def test_alternating_updates_may_share_a_network_and_each_has_its_own_list():
    both = {
        "steps": 1,
        "alternate": {"full": 1, "part": 1},
        "updates": {
            "full": update("joint", "generator", "discriminator"),
            "part": update("completion", "generator"),
        },
    }
    with tf.Graph().as_default():
        gan = build()
        stages = make_stages(gan, Settings.model_validate({"stages": {"duel": both}}))
        ledger = make_ledger(gan, stages, buffer_updates())
    full, part = stages[0].updates
    norm = {"generator/norm/scale", "generator/norm/offset"}
    names = {variable.op.name for variable in ledger.var_list(full)}
    assert names == norm | {"generator/weights", "generator/branch", "discriminator/weights"}
    names = {variable.op.name for variable in ledger.var_list(part)}
    assert names == norm | {"generator/weights"}
    # One update misses what the other trains.
    [error] = ledger.errors()
    assert "duel/part: loss 'completion' does not reach generator/branch" in error
    assert states(ledger, "duel")["generator/branch"] is State.TRAINED


def test_a_variable_that_no_stage_trains_is_warned_of():
    ledger = ledger_of(
        d=[update("discriminator", "discriminator")], joint=[update("joint", "generator")]
    )
    assert ledger.warnings() == ["no stage trains generator_critic/weights"]


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (
            update("completoin", "generator"),
            "stages.a.updates.u0.loss: the model has no 'completoin'; did you mean 'completion'?",
        ),
        (
            update("joint", "generater"),
            "stages.a.updates.u0.networks: the model has no 'generater'; did you mean 'generator'?",
        ),
    ],
)
def test_what_the_model_does_not_have_is_refused_with_the_nearest_name(wrong, expected):
    with pytest.raises(ConfigError) as raised:
        ledger_of(a=[wrong])
    assert str(raised.value) == expected


def test_two_updates_of_one_stage_cannot_move_one_variable():
    with pytest.raises(ConfigError, match="a/u0 and a/u1 of one step both move generator/weights"):
        ledger_of(a=[update("joint", "generator"), update("completion", "generator")])


def test_a_network_without_variables_is_refused():
    with tf.Graph().as_default():
        gan = build()
        gan = GanGraph({**gan.networks, "ghost": "no/such/scope"}, gan.losses)
        with pytest.raises(ConfigError, match="no trainable variable stands under no/such/scope/"):
            make_stages(gan, settings(a=[update("joint", "ghost")]))


def test_buffers_of_keras_layers_are_found_though_they_fill_no_collection():
    with tf.Graph().as_default():
        v1.get_variable("counted", [], use_resource=True, trainable=False).assign_add(1.0)
        v1.get_variable("only_initialized", [], use_resource=True, trainable=False)
        assert list(buffer_updates()) == ["counted"]


def test_a_buffer_is_read_before_it_moves_except_by_what_follows_from_moving_it():
    with tf.Graph().as_default():
        buffer = v1.get_variable("buffer", [], use_resource=True, trainable=False)
        early = buffer.read_value()
        moved = buffer.assign_add(1.0, read_value=False)
        with tf.control_dependencies([moved]):
            late = buffer.read_value()
        assert buffer_updates() == {"buffer": [moved]}
        assert early.op.inputs[0].op in moved.control_inputs or early.op in moved.control_inputs
        assert late.op not in moved.control_inputs
        assert not {i.op for i in late.op.inputs} & set(moved.control_inputs)
