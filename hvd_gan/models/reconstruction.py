"""How well whole images are reconstructed: PSNR and SSIM, beside the mean color."""

from __future__ import annotations

import math

import numpy as np
from skimage.metrics import structural_similarity

from hvd_gan.engine.graph import Arrays


class ReconstructionQuality:
    """Measures reconstructions against the originals.

    Beside the model stands the training set's mean color, which is what a model says that has
    learned nothing.
    """

    def measure(self, batch: Arrays, outputs: Arrays) -> list[dict[str, float]]:
        """One row an image: the mean squared error and SSIM, of the model and of the mean color.

        batch: `image` float32 [batch, height, width, 3] in [0, 1], `mean_color` [3]; outputs:
        `reconstruction`, like `image`.
        """
        rows = []
        for image, rebuilt in zip(batch["image"], outputs["reconstruction"], strict=True):
            plain = np.broadcast_to(batch["mean_color"], image.shape).astype(image.dtype)
            row = {}
            for name, other in (("", rebuilt), ("_mean_color", plain)):
                row[f"error{name}"] = float(np.square(other - image, dtype=np.float64).mean())
                row[f"ssim{name}"] = float(
                    structural_similarity(image, other, data_range=1.0, channel_axis=-1)
                )
            rows.append(row)
        return rows

    def summarize(self, rows: list[dict[str, float]]) -> dict[str, float]:
        """PSNR in dB over all pixels of all images together (peak 1), and the mean SSIM."""
        summary = {}
        for name in ("", "_mean_color"):
            error = sum(row[f"error{name}"] for row in rows) / len(rows)
            summary[f"psnr{name}"] = -10 * math.log10(error) if error else math.inf
            summary[f"ssim{name}"] = sum(row[f"ssim{name}"] for row in rows) / len(rows)
        return summary
