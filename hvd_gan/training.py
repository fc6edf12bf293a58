"""A training run on one of its ranks: from a request, through everything that is built once, to
the trainer.
"""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING

import tensorflow as tf

from hvd_gan import head
from hvd_gan.cluster.exit_codes import EXIT_STOPPED
from hvd_gan.cluster.world import World
from hvd_gan.config import Settings
from hvd_gan.config_base import ConfigError
from hvd_gan.config_files import Layer, load
from hvd_gan.data import begun
from hvd_gan.data.opening import open_data
from hvd_gan.data.pipeline import Batches, batches
from hvd_gan.engine.checkpoints import Checkpoints
from hvd_gan.engine.fingerprints import check_same_graph
from hvd_gan.engine.inference import Inference
from hvd_gan.engine.init_from import init_from
from hvd_gan.engine.model import find_model
from hvd_gan.engine.numerics import Policy, make_policy
from hvd_gan.engine.program import Program, make_program
from hvd_gan.engine.resuming import Progress, check_schedule, progress
from hvd_gan.engine.session import session_config
from hvd_gan.engine.trainer import train
from hvd_gan.job import Job, Request
from hvd_gan.run_folder import (
    RunFolder,
    make_folder,
    remove_left_overs,
    restrict_new_files,
    save_settings,
    settings_to_go_on_with,
)
from hvd_gan.run_lock import LOST_HOST_SECONDS, WAIT_SECONDS, RunLock
from hvd_gan.same_code import check_same_code
from hvd_gan.screen import Screen
from hvd_gan.watching import Watched, make_monitors, state_of

if TYPE_CHECKING:
    from hvd_gan.cluster.elastic import Committed


def run_training(request: Request, world: World, committed: Committed | None = None) -> int:
    """Trains what the request asks for, or what is left of it. In an elastic job, `committed` holds
    what this rank has of it in memory.

    Returns 0, or EXIT_STOPPED if it was asked to stop early and has saved where it was.
    Raises AgreedError for a mistake in the request, on all ranks.
    """
    request.stop.has_started = True
    world.check_launch()
    with contextlib.closing(RunLock()) as lock:
        return _train(_prepare(request, world, lock, committed), request, committed)


def _train(job: Job, request: Request, committed: Committed | None) -> int:
    world = job.world
    model = world.on_all(lambda: find_model(job.settings.model.build))
    model_settings = world.on_all(lambda: model.settings(job.layer))
    if job.settings.deterministic:
        tf.config.experimental.enable_op_determinism()
    config = world.on_all(lambda: session_config(world.device, job.settings))
    with tf.Graph().as_default():
        world.beat("the building of the graph")
        tf.compat.v1.set_random_seed(job.settings.seed)
        # Keras draws the seeds of its layers from Python's own generator.
        random.seed(job.settings.seed)
        feed = _feed(job)
        # Builds nodes only and runs none, so a rank that fails here leaves no other one waiting.
        program = world.on_all(
            lambda: job.layer.locating(
                lambda: make_program(model.build, feed, model_settings, job.settings)
            ),
            # What else a model's code may raise is no mistake in the request: it has a traceback.
            mistakes=(ConfigError,),
        )
        checkpoints = Checkpoints(job.folder.checkpoints, program, job.settings.checkpoints.keep)
        check_same_graph(program, world)
        inference = Inference(model.build, model_settings, feed.tensors, config)
        with tf.compat.v1.Session(config=config) as session:
            world.beat("the broadcast of the variables")
            start = _start(job, program, checkpoints, session, committed)
            head.show(job.screen, world, job.settings, job.folder, program.ledger, start)
            watched = Watched(job, program, checkpoints, inference, session, feed, start, committed)
            monitors = make_monitors(watched)
            policy = _policy(job, program, checkpoints, session)
            try:
                wanted = request.stop.wanted
                done = train(program, session, feed, job.settings, monitors, policy, wanted)
            finally:
                for monitor in monitors:
                    monitor.close()
            step = progress(program, session).run
    if not done:
        return _stopped_early(request, job, step)
    if world.is_root:
        head.show_results(job.screen, job.folder)
    return 0


def _stopped_early(request: Request, job: Job, step: int) -> int:
    """Says who asked for it. A collective: all ranks have agreed to stop after the same step."""
    reasons = job.world.gather(request.stop.reason)
    rank, reason = next(found for found in enumerate(reasons) if found[1] is not None)
    by = (
        reason
        if job.world.size == 1 or reason.startswith("-")
        else (f"{reason} to rank {rank} on host {job.world.members[rank]}")
    )
    job.screen.say_last(
        f"stopped by {by} after step {step}, which is saved in {job.folder.path}; "
        "the same command goes on"
    )
    return EXIT_STOPPED


def _prepare(request: Request, world: World, lock: RunLock, committed: Committed | None) -> Job:
    restrict_new_files()
    check_same_code(world)

    def resolve() -> tuple[Settings, Layer, RunFolder, bool, list[str]]:
        settings, layer = load(request.preset, request.files, request.overrides)
        settings.rank_batch(world.size)
        folder = make_folder(request.run, request.fresh)
        in_memory = committed is not None and committed.values is not None
        # Before anything else is written or removed there.
        warnings = lock.take(folder.lock, LOST_HOST_SECONDS if in_memory else WAIT_SECONDS)
        has_begun = in_memory or folder.has_checkpoints()
        settings = settings_to_go_on_with(folder, settings, has_begun)
        folder.read_quality()
        remove_left_overs(folder)
        return settings, layer, folder, has_begun, warnings

    settings, layer, folder, has_begun, warnings = world.on_root(resolve)
    world.lifeline.keep_last_words_in(folder.last_words)
    begun_with = world.on_root(lambda: begun.recall(folder.images) if has_begun else [])
    world.beat("the opening of the images")
    opened = open_data(settings.data, world, begun_with)
    settings = settings.model_copy(update={"data": opened.settings})
    world.on_root(lambda: save_settings(folder, settings))
    if not has_begun:
        world.on_root(lambda: begun.keep(folder.images, (opened.images, opened.held_out)))
    screen = Screen(world.is_root)
    screen.open_log(folder.log)
    for note in (*warnings, *opened.notes):
        screen.say(note)
    return Job(
        world,
        screen,
        settings,
        layer,
        folder,
        lock,
        request.keep_going,
        opened.images,
        opened.held_out,
    )


def _feed(job: Job) -> Batches:
    world, settings = job.world, job.settings
    return batches(
        job.images,
        settings.data,
        seed=settings.seed,
        batch=settings.rank_batch(world.size),
        rank=world.rank,
        ranks=world.size,
        threads=world.device.threads,
    )


def _start(
    job: Job,
    program: Program,
    checkpoints: Checkpoints,
    session: tf.compat.v1.Session,
    committed: Committed | None,
) -> Progress:
    """Initialises or restores on rank 0, and brings it to all ranks by the one broadcast."""
    session.run(program.initialize)

    def restore() -> list[str]:
        if committed is not None and committed.values is not None:
            program.load(session, committed.values)
            return []
        newest = checkpoints.newest_good()
        if newest.checkpoint is None or newest.state is None:
            init = job.settings.init
            return init_from(program, session, init) if init else []
        for report in newest.reports:
            job.screen.say(f"warning: {report}")
        if newest.state.images != job.images.fingerprint():
            raise ValueError(
                f"{newest.checkpoint}: the run was trained on other images than are there now, so "
                "its order cannot go on; bring the old ones back, or start over with --fresh"
            )
        checkpoints.restore(session, newest.checkpoint)
        schedule = [list(visit) for visit in newest.state.schedule]
        check_schedule(schedule, program, progress(program, session))
        return []

    for line in job.world.on_root(restore):
        job.screen.say(line)
    session.run(program.broadcast)
    return progress(program, session)


def _policy(
    job: Job, program: Program, checkpoints: Checkpoints, session: tf.compat.v1.Session
) -> Policy:
    """What happens to steps that are not finite. A collective where they are rolled back."""
    if job.settings.numerics.not_finite == "rollback":
        # So that there is something to go back to from the first step on.
        job.world.on_root(lambda: _save_beginning(job, program, checkpoints, session))
    return make_policy(
        program,
        session,
        job.settings,
        job.world,
        lambda: _restore_newest(job, checkpoints, session),
        job.screen.say,
    )


def _save_beginning(
    job: Job, program: Program, checkpoints: Checkpoints, session: tf.compat.v1.Session
) -> None:
    if checkpoints.newest_good().checkpoint is None:
        checkpoints.save(session, state_of(job, program, 0, program.visits[0].label, 0))


def _restore_newest(job: Job, checkpoints: Checkpoints, session: tf.compat.v1.Session) -> str:
    """Reads the newest good checkpoint into rank 0's session, and returns its name."""
    newest = checkpoints.newest_good()
    for report in newest.reports:
        job.screen.say(f"warning: {report}")
    if newest.checkpoint is None:
        raise ValueError(f"{job.folder.checkpoints}: there is no checkpoint to roll back to")
    checkpoints.restore(session, newest.checkpoint)
    return newest.checkpoint.name
