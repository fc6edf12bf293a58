"""Packaging of hvd_gan. `make setup` calls this through install.sh."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent


def version() -> str:
    """The version, read as text: importing the package would need its dependencies."""
    text = (HERE / "hvd_gan" / "__init__.py").read_text()
    return re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE).group(1)


setup(
    name="hvd-gan",
    version=version(),
    description="Trains staged GANs on many GPUs and nodes with Horovod",
    packages=find_packages(include=["hvd_gan", "hvd_gan.*"]),
    package_data={"hvd_gan": ["presets/*.yaml"]},
    entry_points={"console_scripts": ["hvd-gan = hvd_gan.cli:main"]},
    python_requires=">=3.11,<3.14",
    # Two dependencies are missing on purpose; install.sh brings them:
    # - TensorFlow comes as `tensorflow-cpu` or as `tensorflow[and-cuda]`, which hold the same
    #   files, so naming either one here would lay it over the other;
    # - Horovod must be patched and built against the TensorFlow and the MPI that are installed,
    #   which pip alone cannot do.
    # The versions that are known to work together stand in constraints/.
    install_requires=[
        "h5py",
        "mpi4py>=4",
        "numpy>=1.26",
        "pillow",
        "psutil",
        "pydantic>=2",
        "pyyaml",
        "rich",
        "scikit-image>=0.25",
        "scipy",
    ],
    extras_require={
        "gpu": ["tensorflow[and-cuda]"],
        # What Horovod imports, and what it and mpi4py are built with. Horovod 0.28.1's setup.py is
        # too old for setuptools 81.
        "horovod": [
            "cloudpickle",
            "cmake",
            "cython",
            "packaging",
            "setuptools<81",
            "wheel",
        ],
        "tensorboard": ["tensorboard"],
        "test": [
            "hypothesis",
            "mypy",
            "pytest",
            "pytest-timeout",
            "ruff",
            "types-PyYAML",
        ],
    },
)
