"""How a session is set up for a device."""

from __future__ import annotations

import pytest

from hvd_gan.cluster.device import Device
from hvd_gan.config import Settings
from hvd_gan.config_base import ConfigError
from hvd_gan.engine.session import session_config


def test_a_gpu_rank_sees_its_gpu_alone_and_takes_memory_as_it_needs_it():
    config = session_config(Device(gpu=3, threads=4), Settings())
    assert config.gpu_options.visible_device_list == "3"
    assert config.gpu_options.allow_growth
    assert config.intra_op_parallelism_threads == 4


def test_a_cpu_rank_uses_its_share_of_the_cores_and_no_gpu():
    config = session_config(Device(gpu=None, threads=2), Settings())
    assert config.device_count["GPU"] == 0
    assert (config.intra_op_parallelism_threads, config.inter_op_parallelism_threads) == (2, 2)


def test_a_deterministic_run_has_one_thread():
    config = session_config(Device(gpu=None, threads=8), Settings(deterministic=True))
    assert (config.intra_op_parallelism_threads, config.inter_op_parallelism_threads) == (1, 1)


def test_bfloat16_is_for_cpus():
    half = Settings(precision="bfloat16")
    rewrites = session_config(Device(None, 1), half).graph_options.rewrite_options
    assert rewrites.auto_mixed_precision_onednn_bfloat16 == 1
    with pytest.raises(ConfigError, match="precision: bfloat16 is a rewrite for CPUs"):
        session_config(Device(0, 1), half)
