#!/usr/bin/env bash
# Serves ssh on port 2222 to the launcher of a job, as the user that the container runs as; it
# needs no root. The keys are mounted, in that user's ~/.ssh; the host's own key lives as long as
# the container.
set -euo pipefail

home=$(getent passwd "$(id -u)" | cut -d: -f6) || {
    echo "serve-ssh: sshd needs a user with a name; run this container as uid 1000 or as root" >&2
    exit 2
}
[[ -r $home/.ssh/authorized_keys ]] || {
    echo "serve-ssh: $home/.ssh/authorized_keys is not there to read; mount a folder with it" >&2
    exit 2
}

# Of MPI's daemons in this container's life before, if it was killed. They are named by process ids,
# which come again, and a daemon that finds its own name taken ends.
rm -rf "${TMPDIR:-/tmp}"/prted.*

state=$(mktemp -d)
ssh-keygen -q -t ed25519 -N '' -f "$state/host_key"

# sshd gives its sessions a clean environment. What the image and `docker run -e` say of paths,
# MPI and devices shall hold for ranks that arrive this way too.
for name in $(compgen -e); do
    case $name in
        PATH | HOME | LANG | LD_LIBRARY_PATH | PYTHON* | OMPI_* | PRTE_* | PMIX_* | HOROVOD_* | HVD_GAN_* | NCCL_* | TF_* | CUDA_* | NVIDIA_*)
            session+=" $name=\"${!name}\""
            ;;
    esac
done

# Root's sshd wants a folder of its own.
[[ $(id -u) != 0 ]] || mkdir -p /run/sshd
exec /usr/sbin/sshd -D -e -f /etc/ssh/hvd_gan_sshd_config -h "$state/host_key" -o "SetEnv${session:-}"
