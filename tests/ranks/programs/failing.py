"""A job in which rank 1 fails, in the way that its argument names."""

from __future__ import annotations

import sys

from hvd_gan.cluster import together


def job(world) -> int:
    how = sys.argv[1]
    if how == "in_python":
        if world.rank == 1:
            raise RuntimeError("a wire\nwas cut")
        world.gather("waits for rank 1")
    if how == "in_a_step":
        import horovod.tensorflow as hvd
        import tensorflow as tf

        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            total = hvd.allreduce(tf.constant(1.0))
            for step in range(10**9):
                if step == 5 and world.rank == 1:
                    raise RuntimeError("a wire\nwas cut")
                session.run(total)
    if how == "agreed":

        def check() -> None:
            if world.rank == 1:
                raise ValueError("data.path: there is no such folder")

        world.on_all(check)
    return 0


if __name__ == "__main__":
    sys.exit(together.run(job))
