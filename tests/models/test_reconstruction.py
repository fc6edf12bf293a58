"""The measures of reconstructions, against scikit-image."""

from __future__ import annotations

import math

import numpy as np
import pytest
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from hvd_gan.models.reconstruction import ReconstructionQuality


def test_psnr_is_over_all_pixels_together_and_ssim_a_mean_beside_the_mean_color():
    rng = np.random.default_rng(0)
    image = rng.random((4, 16, 16, 3), np.float32)
    rebuilt = np.clip(image + 0.1 * rng.standard_normal(image.shape, np.float32), 0, 1)
    rebuilt[0] = image[0]
    color = np.array([0.2, 0.5, 0.9], np.float32)
    quality = ReconstructionQuality()
    rows = quality.measure(
        {"image": image, "mean_color": color}, {"reconstruction": rebuilt, "latent": image}
    )
    summary = quality.summarize(rows)
    plain = np.broadcast_to(color, image.shape)
    for name, other in (("", rebuilt), ("_mean_color", plain)):
        psnr = peak_signal_noise_ratio(image, other, data_range=1)
        assert summary[f"psnr{name}"] == pytest.approx(psnr, abs=1e-4)
        ssim = [
            structural_similarity(a, b, data_range=1, channel_axis=-1)
            for a, b in zip(image, other, strict=True)
        ]
        assert summary[f"ssim{name}"] == pytest.approx(np.mean(ssim), abs=1e-6)


def test_a_perfect_reconstruction_has_no_error():
    image = np.random.default_rng(0).random((2, 8, 8, 3), np.float32)
    quality = ReconstructionQuality()
    batch = {"image": image, "mean_color": np.zeros(3, np.float32)}
    summary = quality.summarize(quality.measure(batch, {"reconstruction": image}))
    assert summary["psnr"] == math.inf and summary["ssim"] == pytest.approx(1)
