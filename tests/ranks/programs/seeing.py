"""Tells which device each rank has, where each sees the GPUs that an argument names for it: `a,b`
for rank 0, then for rank 1, and so on. There need be no GPU."""

from __future__ import annotations

import sys

import hvd_gan.cluster.world
from hvd_gan.cluster import together
from hvd_gan.cluster.gpus import Sight
from hvd_gan.cluster.launcher import stated_rank


def look(host: str, seen: int) -> Sight:
    named = sys.argv[1:][stated_rank()]
    return Sight(host, tuple(filter(None, named.split(","))), named, 4)


def job(world) -> int:
    world.check_launch()
    for rank, device in enumerate(world.gather(str(world.device))):
        if world.is_root:
            print(f"rank {rank}: {device}")
    return 0


hvd_gan.cluster.world.look = look
sys.exit(together.run(job))
