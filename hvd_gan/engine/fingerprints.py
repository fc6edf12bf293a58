"""Fingerprints: short values by which ranks compare graphs and weights."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from hvd_gan.cluster.world import AgreedError, World
from hvd_gan.engine.program import Program


def check_same_graph(program: Program, world: World) -> None:
    """Raises AgreedError on all ranks, with the first difference, if their graphs differ.

    Compares what must agree: the variables and Horovod's collectives, which it matches by name.
    """
    lines = [
        f"variable {v.op.name} {v.dtype.base_dtype.name} {v.shape}" for v in program.variables
    ] + [
        f"collective {operation.type} {operation.name}"
        for operation in program.graph.get_operations()
        if operation.type.startswith("Horovod")
    ]
    digests = world.gather(hashlib.sha256("\n".join(lines).encode()).hexdigest())
    # All ranks hold the same digests, so all take the same branch to the second gather.
    if len(set(digests)) == 1:
        return
    graphs = world.gather(lines)
    for rank, other in enumerate(graphs):
        if other != graphs[0]:
            mine, theirs = _first_difference(graphs[0], other)
            raise AgreedError(
                f"rank {rank} on host {world.members[rank]} built another graph than rank 0: "
                f"{theirs!r} where rank 0 has {mine!r}; a model must not look at its rank or host"
            )


def fingerprints(values: Mapping[str, np.ndarray]) -> dict[str, str]:
    """A digest of each array's bytes, by name."""
    return {
        name: hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
        for name, value in values.items()
    }


def _first_difference(one: list[str], other: list[str]) -> tuple[str, str]:
    length = max(len(one), len(other))
    pairs = zip(
        one + ["nothing"] * (length - len(one)),
        other + ["nothing"] * (length - len(other)),
        strict=True,
    )
    return next((mine, theirs) for mine, theirs in pairs if mine != theirs)
