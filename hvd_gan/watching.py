"""What watches a training run: which monitors each rank has, in which order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tensorflow as tf

from hvd_gan.data.held_out import HeldOut
from hvd_gan.data.pipeline import Batches
from hvd_gan.data.watch import DataWatch, Skips
from hvd_gan.engine.checkpoint_files import State
from hvd_gan.engine.checkpoints import Checkpoints
from hvd_gan.engine.inference import Inference
from hvd_gan.engine.monitors.commit import Commit
from hvd_gan.engine.monitors.drift import Drift
from hvd_gan.engine.monitors.evaluation import Evaluation, Results, evaluate
from hvd_gan.engine.monitors.guard import Guard, Guarded
from hvd_gan.engine.monitors.heartbeat import Heartbeat
from hvd_gan.engine.monitors.metrics import Events, Metrics, MetricsFile
from hvd_gan.engine.monitors.monitor import Monitor, Report
from hvd_gan.engine.monitors.progress import Bar, Lines
from hvd_gan.engine.monitors.samples import Samples
from hvd_gan.engine.monitors.saver import Saver
from hvd_gan.engine.monitors.verify import Verify
from hvd_gan.engine.program import Program
from hvd_gan.engine.resuming import Progress
from hvd_gan.engine.stages import Visit
from hvd_gan.job import Job

if TYPE_CHECKING:
    from hvd_gan.cluster.elastic import Committed

PICTURES = 8
CURE = (
    "Free space there (python -m hvd_gan.checkpoints {run} --prune 1 removes all but the newest, "
    "checkpoints.keep says how many a run has) or make it writable, and give the same command "
    "again; with --keep-going-on-save-error a job says so and trains on"
)
GONE = (
    "The run's folder is gone: removed, renamed or unmounted while the job ran. Put it back where "
    "it was and give the same command again; without it that command starts anew"
)


@dataclass(frozen=True)
class Watched:
    """All that the monitors look at."""

    job: Job
    program: Program
    checkpoints: Checkpoints
    inference: Inference
    session: tf.compat.v1.Session
    feed: Batches
    start: Progress
    committed: Committed | None = None


def state_of(job: Job, program: Program, step: int, stage: str, stage_step: int) -> State:
    """The note that is saved with a checkpoint."""
    return State(
        step=step,
        stage=stage,
        stage_step=stage_step,
        schedule=tuple((name, steps) for name, steps in program.schedule()),
        ranks=job.world.size,
        images=job.images.fingerprint(),
    )


def make_monitors(run: Watched) -> list[Monitor]:
    """The monitors of this rank.

    Those that make collective calls stand on every rank, in one order; rank 0 has the writers
    around them, which make none.
    """
    writers = _Writers(run) if run.job.world.is_root else None
    before, after = (writers.before(), writers.after()) if writers else ([], [])
    return [*before, *_collective(run, writers), *after, *_commit(run)]


def _commit(run: Watched) -> list[Monitor]:
    """The last: when hosts have come or gone, it ends training in this world."""
    committed, saved = run.committed, run.job.settings.checkpoints
    if committed is None:
        return []

    def commit() -> None:
        committed.keep(run.program.read(run.session))

    return [Commit(commit, saved.commit, saved.every)]


def _collective(run: Watched, writers: _Writers | None) -> list[Monitor]:
    job, settings, world = run.job, run.job.settings, run.job.world
    skips = Skips(len(job.images), settings.data, world, job.screen, "image")
    monitors: list[Monitor] = [
        Heartbeat(world.beat),
        DataWatch(skips, run.feed.skipped, settings.batch),
    ]
    every, saved_every = settings.numerics.drift_every, settings.checkpoints.every
    if every and world.size > 1:
        monitors.append(Drift(run.program, run.session, world, every, saved_every))
    if settings.verify:
        monitors.append(Verify(run.program, run.session, world))
    quality, samples = run.inference.gan.quality, settings.evaluation.samples
    if quality is None or not samples or not len(job.held_out):
        return monitors
    held_out = HeldOut(job.held_out, settings.data, settings.seed)
    held_out_skips = Skips(len(job.held_out), settings.data, world, job.screen, "held-out image")

    def measure() -> Results:
        run.inference.load(run.program.read(run.session))
        mine = held_out.batches(samples, world.rank, world.size)
        results = evaluate(run.inference, quality, mine, world)
        # Every rank evaluates, so every rank shares what it skipped.
        held_out_skips.share(held_out.skipped())
        return results

    def announce(report: Report, results: Results) -> None:
        if writers:
            writers.announce(report, results)

    return [*monitors, Evaluation(measure, announce)]


def _cure(run: Path) -> str:
    return CURE.format(run=run) if run.is_dir() else GONE


class _Writers:
    """What rank 0 writes and shows."""

    def __init__(self, run: Watched) -> None:
        self._run = run
        self._guard = Guard(
            run.job.keep_going,
            run.job.screen.say,
            run.checkpoints.standing,
            lambda: _cure(run.job.folder.path),
        )
        with self._guard(has_to=True):
            self._events = Events(run.job.folder.events, run.start.run)
            self._metrics = MetricsFile(run.job.folder.metrics, run.start.run)
        self._quality: dict[str, Results] = run.job.folder.read_quality()

    def before(self) -> list[Monitor]:
        """What comes before the collective monitors: the screen is theirs after a stage."""
        job = self._run.job
        show = Bar if job.screen.terminal else Lines
        return [show(job.screen.console, job.settings.batch)]

    def after(self) -> list[Monitor]:
        """What comes after them: a checkpoint at a stage's end stands behind its evaluation."""
        run, job, settings = self._run, self._run.job, self._run.job.settings
        monitors: list[Monitor] = [
            Metrics(self._metrics, self._events, settings.batch, settings.log_every)
        ]
        if run.inference.gan.images and len(job.held_out):
            held_out = HeldOut(job.held_out, settings.data, settings.seed)
            monitors.append(
                Samples(
                    run.inference,
                    lambda: run.program.read(run.session),
                    held_out.batch(range(PICTURES)),
                    job.folder.samples,
                    self._events,
                    settings.evaluation.every,
                )
            )
        saver = Saver(self._save, settings.checkpoints.every)
        return [*(Guarded(monitor, self._guard) for monitor in monitors), saver]

    def announce(self, report: Report, results: Results) -> None:
        """Writes a stage's evaluation down and says its first number."""
        job = self._run.job
        tagged = {f"held_out/{name}": value for name, value in results.items()}
        self._quality[report.visit.label] = results
        with self._guard():
            job.folder.write_quality(self._quality)
        with self._guard():
            self._metrics.write(report.step, {"stage": report.visit.label, **results})
        with self._guard():
            self._events.scalars(report.step, tagged)
        shown = ", ".join(f"{name} {value:.2f}" for name, value in results.items())
        job.screen.log(f"held out, after {report.visit.label}: {shown}")

    def _save(self, report: Report) -> None:
        run, job = self._run, self._run.job
        state = state_of(job, run.program, report.step, report.visit.label, report.visit_step)
        # A job whose last step is not saved has not done what was asked for.
        last = report.stop or (report.is_last and report.visit == _last_visit(run.program))
        with self._guard(has_to=last), job.world.lifeline.undisturbed():
            path = run.checkpoints.save(run.session, state)
            job.screen.log(f"checkpoint {path.name}")


def _last_visit(program: Program) -> Visit:
    return [visit for visit in program.visits if visit.stage.steps][-1]
