"""What a launcher states is believed before what Horovod sees."""

from __future__ import annotations

import pytest

from hvd_gan.cluster.launcher import LaunchError, check_not_alone, launcher_pid, stated_size


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, (1, "")),
        ({"OMPI_COMM_WORLD_SIZE": "8"}, (8, "OMPI_COMM_WORLD_SIZE")),
        ({"SLURM_STEP_NUM_TASKS": "4", "PMI_SIZE": "4"}, (4, "PMI_SIZE")),
        # A batch script is told the job's size, but is one process.
        ({"SLURM_NTASKS": "8"}, (1, "")),
        ({"PMI_SIZE": "nonsense"}, (1, "")),
    ],
)
def test_the_launchers_variables_are_read(environment, expected):
    assert stated_size(environment)[0] == expected[0]
    assert bool(stated_size(environment)[1]) == bool(expected[1])


def test_a_rank_that_is_alone_against_its_launchers_word_is_refused():
    with pytest.raises(LaunchError, match="OMPI_COMM_WORLD_SIZE says 8 processes"):
        check_not_alone(1, {"OMPI_COMM_WORLD_SIZE": "8"})
    check_not_alone(8, {"OMPI_COMM_WORLD_SIZE": "8"})
    check_not_alone(1, {})


def test_no_launcher_is_found_where_there_is_none():
    assert launcher_pid() is None
