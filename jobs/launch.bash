# shellcheck shell=bash
# Starts the ranks of a job, and goes on after it was stopped. The .sbatch files source it.

# The exit codes of `python -m hvd_gan.train`.
readonly DONE=0 FAILED=1 REFUSED=2 STOPPED=75
# Ended by USR1, before the ranks took it.
readonly SIGNALLED=138

MAX_RESTARTS=${MAX_RESTARTS:-100}

# `sbatch --export=...` would have srun keep from the ranks what is exported here.
export SLURM_EXPORT_ENV=ALL

# This job alone: the number of an array's last element is also that of the whole array.
JOB=$SLURM_JOB_ID
[[ -z ${SLURM_ARRAY_TASK_ID:-} ]] || JOB=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID

# What starts the ranks under srun, and the Python that they run.
SRUN=(srun --mpi=pmix --kill-on-bad-exit=1)
PYTHON=(python)
WORLD_IS_WHOLE='
import os, sys
from mpi4py import MPI
sys.exit(MPI.COMM_WORLD.size != int(os.environ["SLURM_NTASKS"]))'

say() { echo "hvd_gan: $*"; }

refuse() {
    echo "hvd_gan: $*" >&2
    exit "$REFUSED"
}

# Puts HVD_GAN_VENV's programs first.
use_environment() {
    [[ -x $HVD_GAN_VENV/bin/python ]] || refuse \
        "no environment in $HVD_GAN_VENV: run \`make setup\` in $HVD_GAN_HOME, or set HVD_GAN_VENV"
    export PATH=$HVD_GAN_VENV/bin:$PATH
}

# Trains with these arguments, and ends this script with the exit code that Slurm is to see.
train() {
    local argument
    for argument; do
        [[ $argument != --fresh ]] || refuse \
            "--fresh would start over at each requeue: leave it out, and give --run a new folder"
    done
    signalled="" interrupted="" launched=""
    # Rank 0 leaves its exit code there. It runs on this host; containers have /tmp too.
    HVD_GAN_EXIT_FILE=$(mktemp /tmp/hvd_gan.XXXXXX)
    export HVD_GAN_EXIT_FILE
    trap 'stop_ranks USR1' USR1
    trap 'stop_ranks TERM' TERM
    choose_launcher
    code=$STOPPED
    if [[ -z $signalled ]]; then
        "${LAUNCH[@]}" "${PYTHON[@]}" -m hvd_gan.train "$@" &
        launched=$!
        wait_for_ranks
    fi
    trap '' USR1 TERM
    read_exit_code
    if is_to_go_on "$@"; then go_on; fi
    exit "$code"
}

# Has every rank save and stop. The ranks take USR1 from srun and from mpirun alike; TERM would have
# mpirun kill them a few seconds later.
stop_ranks() {
    signalled=yes interrupted=yes
    say "SIG$1: the ranks save and stop"
    [[ -z $launched ]] || kill -USR1 "$launched" 2>/dev/null || true
}

# Waits for the launcher's end, however many signals come meanwhile. Sets `code`.
wait_for_ranks() {
    while
        interrupted="" code=0
        wait "$launched" || code=$?
        [[ -n $interrupted ]]
    do :; done
}

# Takes rank 0's own exit code for the job's: srun's is the highest of all, and where a node is
# lost, Open MPI 5's mpirun ends with 0.
read_exit_code() {
    local said
    said=$(<"$HVD_GAN_EXIT_FILE")
    rm -f "$HVD_GAN_EXIT_FILE"
    case $said in
        "") ;;
        started) ((code != DONE)) || code=$FAILED ;;
        *) code=$said ;;
    esac
}

# Whether Slurm is to start this job again.
is_to_go_on() {
    [[ $code != "$DONE" && $code != "$REFUSED" ]] || return 1
    local job
    job=$(scontrol show --oneliner job "$JOB")
    # Slurm has ended it already: by the time limit, or because somebody wanted it to.
    [[ $job != *JobState=COMPLETING* || $job == *Reason=TimeLimit* ]] || return 1
    [[ -z $signalled ]] || return 0
    # Preemption signals the ranks, not this script.
    [[ ! $job =~ PreemptTime=[0-9] ]] || return 0
    case $code in
        # Without a signal to this script: one to the ranks, or --max-time, which was meant so.
        "$STOPPED" | "$SIGNALLED") [[ " $* " != *" --max-time"* ]] ;;
        *) a_node_is_lost ;;
    esac
}

# Whether a node does not answer, which has taken its ranks along. Slurm may need minutes to notice.
a_node_is_lost() {
    local answer=(srun --mpi=none --gres=none --ntasks-per-node=1)
    answer+=(--nodes="$SLURM_NNODES" --ntasks="$SLURM_NNODES")
    # Slurm 20.11 and newer want to be told, older ones know no such option.
    ! grep -q -e --overlap <<<"$(srun --help 2>&1)" || answer+=(--overlap)
    answer+=(true)
    ! env -u SLURM_GPUS_PER_TASK -u SLURM_GRES timeout 60 "${answer[@]}" 2>/dev/null || return 1
    say "a node does not answer"
}

# Puts this job back into the queue. By default Slurm holds it there for two minutes.
go_on() {
    if ((${SLURM_RESTART_COUNT:-0} >= MAX_RESTARTS)); then
        say "MAX_RESTARTS=$MAX_RESTARTS are used up: the same sbatch command goes on"
    elif scontrol requeue "$JOB"; then
        say "back in the queue; the run goes on where it was saved"
    else
        say "Slurm does not requeue this job: the same sbatch command goes on"
    fi
}

# Sets LAUNCH: srun where Slurm's PMIx starts this environment's MPI, else the mpirun of it.
choose_launcher() {
    # Since Slurm 22.05 srun no longer takes this from sbatch.
    [[ -z ${SLURM_CPUS_PER_TASK:-} ]] || export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
    # Slurm offers munge too, which the Open MPI from PyPI does not have and complains of.
    export PMIX_MCA_psec=${PMIX_MCA_psec:-native}
    local why="as LAUNCHER says"
    if [[ $LAUNCHER == auto ]]; then
        LAUNCHER=srun why="Slurm's PMIx starts this MPI"
        if ! grep -q pmix <<<"$(srun --mpi=list 2>&1)"; then
            LAUNCHER=mpirun why="this Slurm has no PMIx"
        elif ! timeout 120 "${SRUN[@]}" "${PYTHON[@]}" -c "$WORLD_IS_WHOLE" >/dev/null 2>&1; then
            LAUNCHER=mpirun why="srun --mpi=pmix does not start this MPI"
        fi
    fi
    case $LAUNCHER in
        srun) LAUNCH=("${SRUN[@]}") ;;
        mpirun) LAUNCH=(mpirun --bind-to none --map-by slot) && give_mpirun_whole_nodes ;;
        *) refuse "LAUNCHER=$LAUNCHER is none of auto, srun, mpirun" ;;
    esac
    command -v "${LAUNCH[0]}" >/dev/null || refuse \
        "$why, and there is no mpirun: load the module of the MPI that Horovod was built with"
    say "ranks start by $LAUNCHER: $why"
}

# mpirun starts one daemon on each node, as a job step of one task. That step would have one rank's
# cores, and with --gpus-per-task one GPU, for all ranks of the node.
give_mpirun_whole_nodes() {
    unset SRUN_CPUS_PER_TASK
    [[ -n ${SLURM_GPUS_ON_NODE:-} ]] || return 0
    unset SLURM_GPUS_PER_TASK
    export SLURM_GRES=gpu:$SLURM_GPUS_ON_NODE
}
