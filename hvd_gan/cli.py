"""`hvd-gan COMMAND ...` is `python -m hvd_gan.COMMAND ...`."""

from __future__ import annotations

import importlib
import sys

COMMANDS = {
    "train": "train a staged GAN, or go on with a run",
    "latent": "look at a VAE-GAN's latent space: samples, reconstructions, walks, attributes",
    "launch": "start mpirun or horovodrun, again if the job fails",
    "checkpoints": "list, verify and prune a run's checkpoints",
    "audit": "show what each stage would train, and train nothing",
    "doctor": "check what is installed, this machine, the ranks or other hosts",
}


def main() -> int:
    """Runs a command's `main` with the rest of the arguments."""
    arguments = sys.argv[1:]
    if arguments[:1] in ([], ["-h"], ["--help"]):
        print("usage: hvd-gan COMMAND ...\n")
        for name, purpose in COMMANDS.items():
            print(f"  {name:<12} {purpose}")
        return 0 if arguments else 2
    command, *rest = arguments
    if command not in COMMANDS:
        print(f"hvd-gan: no command {command!r}; there are {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    return importlib.import_module(f"hvd_gan.{command}").main(rest)


if __name__ == "__main__":
    sys.exit(main())
