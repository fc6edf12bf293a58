"""What launchers state is read, whichever launcher it is."""

from __future__ import annotations

import pytest

from hvd_gan.checks.here import LOCAL_RANKS, LOCAL_SIZES, RANKS, stated


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}, (3, 1)),
        ({"HOROVOD_RANK": "5", "HOROVOD_LOCAL_RANK": "2"}, (5, 2)),
        ({"SLURM_PROCID": "7", "SLURM_LOCALID": "3"}, (7, 3)),
        ({"PMI_RANK": "2", "MPI_LOCALRANKID": "0"}, (2, 0)),
        ({}, (0, 0)),
    ],
)
def test_the_rank_is_read(environment, expected):
    assert (stated(RANKS, 0, environment), stated(LOCAL_RANKS, 0, environment)) == expected


def test_the_number_of_ranks_here_is_one_where_nobody_says_it():
    assert stated(LOCAL_SIZES, 1, {"OMPI_COMM_WORLD_LOCAL_SIZE": "4"}) == 4
    assert stated(LOCAL_SIZES, 1, {"OMPI_COMM_WORLD_LOCAL_SIZE": "many"}) == 1
