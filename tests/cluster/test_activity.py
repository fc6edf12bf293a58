"""What a rank says that it is doing."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from hvd_gan.cluster.activity import doing, stacks


def test_the_main_threads_function_is_named():
    assert doing().startswith("test_the_main_threads_function_is_named") or "doing" in doing()


def test_a_worker_comes_before_the_main_thread():
    release, started = threading.Event(), threading.Event()

    def reading() -> None:
        started.set()
        release.wait(10)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(reading)
        started.wait(10)
        found = stacks()
        # The innermost function of the worker, whichever that is: it stands in `reading`.
        assert "in reading" in found and found.startswith("Thread MainThread")
        assert "threading.py" in doing()
        release.set()


def test_our_own_threads_are_left_out():
    release = threading.Event()
    threads = [threading.Thread(target=release.wait, name=name) for name in ("hub", "other")]
    for thread in threads:
        thread.start()
    found = stacks()
    release.set()
    assert "Thread other" in found and "Thread hub" not in found
