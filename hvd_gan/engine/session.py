"""How TensorFlow runs a graph on a rank's device."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.core.protobuf import rewriter_config_pb2

from hvd_gan.cluster.device import Device
from hvd_gan.config import Settings
from hvd_gan.config_base import ConfigError


def session_config(device: Device, settings: Settings) -> tf.compat.v1.ConfigProto:
    """One GPU with growing memory, or a share of the cores; the precision by Grappler's rewrite.

    Raises ConfigError for a precision that the device does not have.
    """
    threads = 1 if settings.deterministic else device.threads
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=threads,
        inter_op_parallelism_threads=threads,
        # Else they are as many as the process's first session wanted, whichever that was.
        use_per_session_threads=True,
        allow_soft_placement=True,
    )
    if device.gpu is None:
        config.device_count["GPU"] = 0
    else:
        config.gpu_options.allow_growth = True
        config.gpu_options.visible_device_list = str(device.gpu)
    if settings.precision == "bfloat16":
        if device.gpu is not None:
            raise ConfigError(
                "precision: bfloat16 is a rewrite for CPUs; on a GPU take float32, "
                "which uses TensorFloat-32 where the GPU has it"
            )
        rewrites = config.graph_options.rewrite_options
        rewrites.auto_mixed_precision_onednn_bfloat16 = rewriter_config_pb2.RewriterConfig.ON
    return config
