"""A job's files in /tmp go with it, and those of killed supervisors with the next job."""

from __future__ import annotations

from hvd_gan.cluster.scratch import Scratch


def test_what_killed_supervisors_left_is_removed_and_what_is_in_use_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    dead, unknown = tmp_path / "hvd_gan-job-dead", tmp_path / "hvd_gan-job-unknown"
    (dead / "ompi.7/0").mkdir(parents=True)
    (dead / "exit-code").touch()
    unknown.mkdir()
    with Scratch() as first:
        assert not dead.exists() and unknown.exists()
        (first.note.parent / "ompi.8").mkdir()
        with Scratch() as second:
            assert first.note.exists() and second.note.exists()
        assert not second.note.parent.exists() and first.note.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["hvd_gan-job-unknown"]


def test_a_users_own_folder_for_mpirun_stays():
    with Scratch() as scratch:
        ours = scratch.environment({})
        assert list(ours.values()) == [str(scratch.note.parent)]
        for name in ("PRTE_MCA_prte_tmpdir_base", "PRTE_MCA_prte_local_tmpdir_base"):
            assert scratch.environment({name: "/scratch"}) == {}
