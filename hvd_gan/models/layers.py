"""The layers that the models share, in plain TensorFlow, each under its variable scope.

Images and feature maps are float32 [batch, height, width, channels].
"""

from __future__ import annotations

from typing import Literal

import horovod.tensorflow as hvd
import tensorflow as tf

BatchNorm = Literal["off", "plain", "sync"]
Activation = Literal["relu", "leaky_relu", "none"]

# Torch 7's and Caffe's epsilon; the moments follow the last hundred steps or so.
EPSILON = 1e-5
DECAY = 0.99


def conv(x: tf.Tensor, name: str, channels: int, kernel: int, stride: int = 1, dilation: int = 1):
    """A convolution with SAME padding and a bias; He et al. 2015 initialisation."""
    with tf.compat.v1.variable_scope(name):
        weights = _weights([kernel, kernel, x.shape[-1], channels], kernel * kernel * x.shape[-1])
        y = tf.nn.conv2d(x, weights, strides=stride, padding="SAME", dilations=dilation)
        return tf.nn.bias_add(y, _zeros("bias", channels))


def deconv(x: tf.Tensor, name: str, channels: int, kernel: int, stride: int):
    """A transposed convolution with a bias: height and width grow by `stride`."""
    with tf.compat.v1.variable_scope(name):
        fan_in = kernel * kernel * x.shape[-1] // stride**2
        weights = _weights([kernel, kernel, channels, x.shape[-1]], fan_in)
        batch = tf.shape(x)[0]
        shape = [batch, x.shape[1] * stride, x.shape[2] * stride, channels]
        y = tf.nn.conv2d_transpose(x, weights, shape, strides=stride, padding="SAME")
        y = tf.ensure_shape(y, [x.shape[0], *shape[1:]])
        return tf.nn.bias_add(y, _zeros("bias", channels))


def dense(x: tf.Tensor, name: str, units: int):
    """A fully connected layer over all but the first dimension: [batch, units]."""
    with tf.compat.v1.variable_scope(name):
        x = tf.reshape(x, [-1, int(x.shape[1:].num_elements())])
        weights = _weights([x.shape[-1], units], x.shape[-1])
        return tf.nn.bias_add(tf.matmul(x, weights), _zeros("bias", units))


def batch_norm(x: tf.Tensor, name: str, kind: BatchNorm, training: bool) -> tf.Tensor:
    """Batch normalisation (Ioffe and Szegedy 2015, algorithm 1) over all but the last dimension.

    `plain` normalises with this rank's batch, `sync` with the batch over all ranks: its moments
    are allreduced, and gradients flow through the allreduce. Moving moments go to `UPDATE_OPS`;
    the engine runs them in stages that train the network, and averages them over ranks.
    """
    if kind == "off":
        return x
    with tf.compat.v1.variable_scope(name):
        channels = x.shape[-1]
        scale = tf.compat.v1.get_variable(
            "scale", [channels], initializer=tf.compat.v1.ones_initializer()
        )
        offset = _zeros("offset", channels)
        mean_average = _moving("moving_mean", channels, 0.0)
        variance_average = _moving("moving_variance", channels, 1.0)
        if training:
            mean, variance = _moments(x, synchronised=kind == "sync")
            _follow(mean_average, mean)
            _follow(variance_average, variance)
        else:
            mean, variance = mean_average, variance_average
        return tf.nn.batch_normalization(x, mean, variance, offset, scale, EPSILON)


def activate(x: tf.Tensor, activation: Activation) -> tf.Tensor:
    """Applies an activation by name; leaky ReLU has slope 0.2."""
    if activation == "relu":
        return tf.nn.relu(x)
    if activation == "leaky_relu":
        return tf.nn.leaky_relu(x, 0.2)
    return x


def _moments(x: tf.Tensor, synchronised: bool) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean and (biased) variance over all but the last dimension, each [channels]."""
    axes = list(range(len(x.shape) - 1))
    if not synchronised:
        return tf.nn.moments(x, axes)
    # One collective for both. Ranks hold equally many images, so means may be averaged.
    local = tf.stack([tf.reduce_mean(x, axes), tf.reduce_mean(tf.square(x), axes)])
    mean, square = tf.unstack(hvd.allreduce(local, op=hvd.Average))
    return mean, tf.maximum(square - tf.square(mean), 0.0)


def _follow(average: tf.Variable, value: tf.Tensor) -> None:
    """Adds an update of a moving average, after those that the graph already has for it.

    A network that is applied twice has two; unordered, both could start from the same value.
    """
    collection = tf.compat.v1.GraphKeys.UPDATE_OPS
    earlier = [
        update
        for update in tf.compat.v1.get_collection(collection)
        if update.inputs[0] is average.handle
    ]
    with tf.control_dependencies(earlier):
        current = average.read_value()
        update = average.assign(DECAY * current + (1 - DECAY) * value, read_value=False)
    tf.compat.v1.add_to_collection(collection, update)


def _weights(shape: list, fan_in: int) -> tf.Variable:
    initializer = tf.compat.v1.random_normal_initializer(stddev=(2.0 / int(fan_in)) ** 0.5)
    return tf.compat.v1.get_variable("weights", shape, initializer=initializer)


def _zeros(name: str, size: int) -> tf.Variable:
    return tf.compat.v1.get_variable(name, [size], initializer=tf.compat.v1.zeros_initializer())


def _moving(name: str, size: int, start: float) -> tf.Variable:
    return tf.compat.v1.get_variable(
        name,
        [size],
        initializer=tf.compat.v1.constant_initializer(start),
        trainable=False,
        use_resource=True,
    )
