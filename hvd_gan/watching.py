"""What watches a training run: which monitors each rank has, in which order."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from hvd_gan.data.held_out import HeldOut
from hvd_gan.data.pipeline import Batches
from hvd_gan.data.watch import DataWatch
from hvd_gan.engine.checkpoints import Checkpoints
from hvd_gan.engine.inference import Inference
from hvd_gan.engine.monitors.evaluation import Evaluation, Results, evaluate
from hvd_gan.engine.monitors.heartbeat import Heartbeat
from hvd_gan.engine.monitors.metrics import Events, Metrics, MetricsFile
from hvd_gan.engine.monitors.monitor import Monitor, Report
from hvd_gan.engine.monitors.progress import Bar, Lines
from hvd_gan.engine.monitors.samples import Samples
from hvd_gan.engine.monitors.saver import Saver
from hvd_gan.engine.monitors.verify import Verify
from hvd_gan.engine.program import Program
from hvd_gan.engine.resuming import Progress
from hvd_gan.job import Job

PICTURES = 8


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


def make_monitors(run: Watched) -> list[Monitor]:
    """The monitors of this rank.

    Those that make collective calls stand on every rank, in one order; rank 0 has the writers
    around them, which make none.
    """
    writers = _Writers(run) if run.job.world.is_root else None
    before, after = (writers.before(), writers.after()) if writers else ([], [])
    return [*before, *_collective(run, writers), *after]


def _collective(run: Watched, writers: _Writers | None) -> list[Monitor]:
    job, settings, world = run.job, run.job.settings, run.job.world
    monitors: list[Monitor] = [
        Heartbeat(world.beat),
        DataWatch(run.feed, len(job.images), settings.data, world, job.screen.say),
    ]
    if settings.verify:
        monitors.append(Verify(run.program, run.session, world))
    quality, samples = run.inference.gan.quality, settings.evaluation.samples
    if quality is None or not samples or not len(job.held_out):
        return monitors
    held_out = HeldOut(job.held_out, settings.data, settings.seed)

    def measure() -> Results:
        run.inference.load(run.program.read(run.session))
        mine = held_out.batches(samples, world.rank, world.size)
        return evaluate(run.inference, quality, mine, world)

    def announce(report: Report, results: Results) -> None:
        if writers:
            writers.announce(report, results)

    return [*monitors, Evaluation(measure, announce)]


class _Writers:
    """What rank 0 writes and shows."""

    def __init__(self, run: Watched) -> None:
        self._run = run
        self._events = Events(run.job.folder.events, run.start.run)
        self._metrics = MetricsFile(run.job.folder.metrics, run.start.run)

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
        return [*monitors, Saver(self._save, settings.checkpoints.every)]

    def announce(self, report: Report, results: Results) -> None:
        """Writes a stage's evaluation down and says its first number."""
        job = self._run.job
        job.folder.write_quality(report.visit.label, results)
        self._metrics.write(report.step, {"stage": report.visit.label, **results})
        tagged = {f"held_out/{name}": value for name, value in results.items()}
        self._events.scalars(report.step, tagged)
        shown = ", ".join(f"{name} {value:.2f}" for name, value in results.items())
        job.screen.log(f"held out, after {report.visit.label}: {shown}")

    def _save(self, report: Report) -> None:
        run, job = self._run, self._run.job
        state = {
            "step": report.step,
            "stage": report.visit.label,
            "stage_step": report.visit_step,
            "schedule": run.program.schedule(),
            "ranks": job.world.size,
            "images": job.images.fingerprint(),
        }
        with job.world.lifeline.undisturbed():
            path = run.checkpoints.save(run.session, report.step, state)
        job.screen.log(f"checkpoint {path.name}")
