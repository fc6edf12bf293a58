"""Train staged GANs on many GPUs and nodes with Horovod."""

__version__ = "0.1.0"
