"""The measures of completions, against scikit-image and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from hvd_gan.models.completion import CompletionQuality, ring_color


@pytest.fixture
def batch():
    rng = np.random.default_rng(1)
    mask = np.zeros((3, 16, 16, 1), np.float32)
    mask[0, 2:9, 3:9] = mask[1, :8, :8] = mask[2, 5:15, 5:16] = 1
    image = rng.random((3, 16, 16, 3), np.float32)
    return {"image": image, "mask": mask, "mean_color": np.array([0.2, 0.4, 0.6], np.float32)}


def test_psnr_is_over_all_hole_pixels_together(batch):
    rng = np.random.default_rng(2)
    completed = batch["image"] + 0.1 * rng.standard_normal(batch["image"].shape) * batch["mask"]
    quality = CompletionQuality()
    summary = quality.summarize(quality.measure(batch, {"completed": completed.astype(np.float32)}))
    inside = np.broadcast_to(batch["mask"] > 0, batch["image"].shape)
    expected = peak_signal_noise_ratio(
        batch["image"][inside], completed[inside].astype(np.float32), data_range=1
    )
    assert summary["psnr"] == pytest.approx(expected, abs=1e-4)
    ssim = [
        structural_similarity(one, other, data_range=1, channel_axis=-1)
        for one, other in zip(batch["image"], completed.astype(np.float32), strict=True)
    ]
    assert summary["ssim"] == pytest.approx(np.mean(ssim), abs=1e-6)


def test_the_fills_are_measured_beside(batch):
    quality = CompletionQuality()
    summary = quality.summarize(quality.measure(batch, {"completed": batch["image"]}))
    assert summary["psnr"] == math.inf and summary["ssim"] == 1
    inside = np.broadcast_to(batch["mask"] > 0, batch["image"].shape)
    error = np.square(batch["image"] - batch["mean_color"])[inside].mean()
    assert summary["psnr_mean_fill"] == pytest.approx(-10 * math.log10(error), abs=1e-4)
    assert summary["psnr_ring_fill"] < 20


def test_rows_of_several_ranks_sum_up_to_those_of_one(batch):
    quality, completed = CompletionQuality(), np.clip(batch["image"] + 0.05, 0, 1)
    whole = quality.measure(batch, {"completed": completed})
    parts = []
    for one in ([0, 2], [1]):
        part = {"mean_color": batch["mean_color"]}
        part |= {name: batch[name][one] for name in ("image", "mask")}
        parts += quality.measure(part, {"completed": completed[one]})
    assert quality.summarize(parts) == pytest.approx(quality.summarize(whole))


def test_the_ring_is_the_two_pixels_around_the_hole():
    image = np.zeros((9, 9, 3))
    mask = np.zeros((9, 9, 1))
    mask[4, 4] = 1
    image[4, 6] = 1.2
    image[4, 4] = 9
    image[0, 0] = 5
    # Manhattan distance 1 or 2: 12 pixels.
    np.testing.assert_allclose(ring_color(image, mask), 0.1)


def test_a_hole_over_everything_has_no_ring_and_takes_the_image():
    assert ring_color(np.full((4, 4, 3), 0.25), np.ones((4, 4, 1))) == pytest.approx([0.25] * 3)
