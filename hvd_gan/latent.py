"""Look at a VAE-GAN's latent space: `python -m hvd_gan.latent RUN walk --from 1 --to 2`

Writes a picture. Needs a run's folder with a checkpoint, one process and no launcher.
"""

from __future__ import annotations

import argparse
import io
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from hvd_gan.cluster import together
from hvd_gan.cluster.world import World


def parser() -> argparse.ArgumentParser:
    """The command line of `latent`."""
    arguments = argparse.ArgumentParser(prog="python -m hvd_gan.latent", description=__doc__)
    arguments.add_argument("run", type=Path, metavar="RUN", help="the folder of a VAE-GAN's run")
    actions = arguments.add_subparsers(dest="action", required=True)

    sample = actions.add_parser("sample", help="images decoded from random points")
    sample.add_argument("--count", type=_count, default=64)
    sample.add_argument("--seed", type=_count, default=1, help="of the random points")

    reconstruct = actions.add_parser("reconstruct", help="images beside their reconstructions")
    reconstruct.add_argument(
        "images", nargs="*", type=Path, metavar="IMAGE", help="files; without: held-out images"
    )
    reconstruct.add_argument("--count", type=_count, default=16, help="of held-out images")

    walk = actions.add_parser("walk", help="images on the way from one point to another")
    walk.add_argument("--from", dest="start", required=True, help="an image file, or a seed")
    walk.add_argument("--to", dest="end", required=True, help="an image file, or a seed")
    walk.add_argument("--steps", type=_count, default=8, help="images, the ends included")

    attribute = actions.add_parser("attribute", help="an attribute added to images")
    attribute.add_argument("--labels", type=Path, required=True, help="a CSV: image, attributes")
    attribute.add_argument("--name", required=True, help="the attribute's column")
    attribute.add_argument(
        "--image", nargs="+", type=Path, default=[], help="files; without: held-out images"
    )
    attribute.add_argument("--strengths", type=_numbers, default=[-1.0, 0.0, 1.0])
    attribute.add_argument("--most", type=_count, default=500, help="labelled images of each side")

    for action in actions.choices.values():
        action.add_argument("--out", type=Path, help="the picture (default: RUN/latent/ACTION.png)")
        action.add_argument("--verbose", action="store_true", help="let TensorFlow talk")
    return arguments


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses the command line and writes a picture. Returns the exit code."""
    options = parser().parse_args(joined(sys.argv[1:] if arguments is None else arguments))

    def job(world: World) -> int:
        path = world.on_root(lambda: write(options))
        if world.is_root:
            print(path)
        return 0

    return together.run(job, options.verbose)


def write(options: argparse.Namespace) -> Path:
    """Makes the picture that was asked for and writes it. Raises ConfigError or OSError."""
    from PIL import Image

    from hvd_gan import latent_pictures as pictures
    from hvd_gan.engine.writing import write_whole
    from hvd_gan.latent_space import LatentSpace
    from hvd_gan.run_folder import restrict_new_files

    space = LatentSpace(options.run)
    for warning in space.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if options.action == "sample":
        picture = pictures.sample(space, options.count, options.seed)
    elif options.action == "reconstruct":
        picture = pictures.reconstruct(space, options.images, options.count)
    elif options.action == "walk":
        picture = pictures.walk(space, options.start, options.end, options.steps)
    else:
        picture = pictures.attribute(
            space, options.labels, options.name, options.image, options.strengths, options.most
        )
    out = options.out or options.run / "latent" / f"{options.action}.png"
    kind = Image.registered_extensions().get(out.suffix.lower())
    if kind is None:
        raise ValueError(
            f"--out {out}: pictures are not written as {out.suffix or 'that'}; try .png"
        )
    encoded = io.BytesIO()
    Image.fromarray(picture).save(encoded, kind)
    restrict_new_files()
    write_whole(out, encoded.getvalue())
    return out


def joined(arguments: Sequence[str]) -> list[str]:
    """`--strengths -1,0,1` as `--strengths=-1,0,1`: argparse takes a leading minus for a flag."""
    joined = list(arguments)
    if "--strengths" in joined[:-1]:
        place = joined.index("--strengths")
        joined[place : place + 2] = [f"--strengths={joined[place + 1]}"]
    return joined


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is less than 1")
    return value


def _numbers(text: str) -> list[float]:
    values = [float(part) for part in text.split(",")]
    if not all(math.isfinite(value) for value in values):
        raise argparse.ArgumentTypeError(f"{text!r} are not all finite numbers")
    return values


if __name__ == "__main__":
    sys.exit(main())
