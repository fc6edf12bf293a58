#!/bin/sh
# What the tests of this folder need: Debian's or Ubuntu's packages. As root.
set -eu

# libpmix-dev: without its libpmix.so, srun lists pmix and cannot load it.
packages="iproute2 procps openssh-server openssh-client slurm-wlm munge libpmix-dev shellcheck \
    buildah debootstrap"
# shellcheck disable=SC2086 # a list of words
dpkg -s $packages >/dev/null 2>&1 && exit
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
# The daemons are for tests to start, each in its own host: they stay off on this machine.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
fi
# shellcheck disable=SC2086
apt-get install -q -y --no-install-recommends $packages
