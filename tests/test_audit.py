"""The audit says what would be trained, without ranks, data or a GPU."""

from __future__ import annotations

import json

import pytest

from tests.launch import launch

pytestmark = pytest.mark.ranks
TINY = ("-m", "hvd_gan.audit", "--config", "tests/tiny.yaml")


def test_it_prints_a_table_with_totals_and_bytes():
    done = launch("single", 1, *TINY)
    assert done.code == 0, done.output
    rows = [line.split() for line in done.output.splitlines()]
    assert ["in", "[192,", "6]", "1.15k", "trained", "frozen", "trained"] in rows
    assert ["discriminator", "1.16k"] in rows
    assert "completion/generator: completion moves 3 variables, 9.24kB on the wire" in done.output
    assert max(map(len, done.output.splitlines())) <= 80


def test_it_prints_json_and_takes_the_wire_format_into_account():
    done = launch("single", 1, *TINY, "--json", "compression=fp16", "model.settings={norm: plain}")
    found = json.loads(done.output)
    stages = {stage["name"]: stage for stage in found["stages"]}
    states = {v["name"]: v["state"] for v in stages["discriminator"]["variables"]}
    assert states["generator/norm/moving_mean"] == "buffer held"
    assert states["discriminator/in"] == "trained"
    weights = 192 * 6 + 6 + 6 * 192 + 2 * 6
    assert stages["completion"]["updates"][0]["wire_bytes_per_step"] == 2 * weights
    assert found["errors"] == []


def test_it_fails_where_training_would_be_refused(tmp_path):
    stages = tmp_path / "stages.yaml"
    stages.write_text(
        "stages:\n  a: {steps: 1, updates: {g: {loss: completion, networks: [generator, "
        "discriminator]}}}\n"
    )
    done = launch("single", 1, *TINY, "--stages", str(stages))
    assert done.code == 1
    assert "UNREACHED" in done.output
    assert "error: a/g: loss 'completion' does not reach discriminator/in" in done.output


def test_a_wrong_setting_is_one_line(tmp_path):
    done = launch("single", 1, *TINY, "model.settings={nrm: plain}")
    assert done.code == 2
    assert done.output.strip() == (
        "hvd_gan: command line: model.settings.nrm: unknown key; did you mean 'norm'?"
    )
