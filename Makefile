# make setup   the environment, by install.sh, whose first lines name the variables it takes
# make demo    a short run on two ranks; DEMO_ARGS="..." is appended
# make test    linters, types and all quick tests; TEST_ARGS="..." goes to pytest
# make chaos   the slow tests: every fault at every moment, 30 kills at random over one run
# make test-cluster   tests that build hosts, a Slurm and images of their own; tests/cluster/install.sh
#                     installs what they need, as root
# make gpu-build-check   compiles Horovod for GPUs, needing none, in an environment of its own, and
#              checks that it loads; about 10 minutes and 7 GB
# make clean   removes environments and caches; never what was trained

ENVIRONMENT := $(shell TF='$(TF)' GPU='$(GPU)' VENV='$(VENV)' ./install.sh --where)
BIN := $(ENVIRONMENT)/bin
# Tests start ranks, with the mpirun and the Python of the environment.
IN_ENVIRONMENT := PATH="$(BIN):$$PATH"

.PHONY: setup demo test test-cluster chaos gpu-build-check clean

setup:
	@./install.sh

demo: setup
	$(IN_ENVIRONMENT) $(BIN)/horovodrun -np 2 $(BIN)/python -m hvd_gan.train --preset demo --run runs/demo $(DEMO_ARGS)

test: setup
	$(IN_ENVIRONMENT) ruff check .
	$(IN_ENVIRONMENT) ruff format --check .
	$(IN_ENVIRONMENT) mypy hvd_gan
	$(IN_ENVIRONMENT) pytest -m "not (slow or chaos or cluster)" $(TEST_ARGS)

test-cluster: setup
	$(IN_ENVIRONMENT) pytest -m cluster $(TEST_ARGS)

chaos: setup
	$(IN_ENVIRONMENT) pytest -m "chaos or (slow and not cluster)" $(TEST_ARGS)

# The cache lies in the environment, so that nothing is taken that was built before.
GPU_CHECK := .venv-gpu-build-check
gpu-build-check:
	rm -rf $(GPU_CHECK)
	GPU=1 VENV=$(GPU_CHECK) EXTRAS=test HVD_GAN_CACHE=$(CURDIR)/$(GPU_CHECK)/cache ./install.sh
	$(GPU_CHECK)/bin/pytest tests/gpu_build.py

clean:
	rm -rf .venv .venv-* build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find hvd_gan tests -name __pycache__ -prune -exec rm -rf {} +
