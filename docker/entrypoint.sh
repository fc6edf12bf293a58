#!/usr/bin/env bash
# What a container starts. A program (horovodrun, mpirun, python, bash) is started as it is; any
# other word is a command of hvd-gan: `docker run IMAGE train --preset demo`.
# The program takes this script's place, so signals reach it and its exit code is the container's.
set -euo pipefail

if type -P -- "${1:---help}" >/dev/null; then
    exec "$@"
fi
exec hvd-gan "$@"
