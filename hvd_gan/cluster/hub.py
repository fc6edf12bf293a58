"""The hub: rank 0's ear to every rank. It settles who failed first, says so, and ends the job."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from hvd_gan.cluster.activity import stacks
from hvd_gan.cluster.exit_codes import EXIT_FAILED
from hvd_gan.cluster.launcher import leave_exit_code
from hvd_gan.cluster.roll import BEAT_SECONDS, Entry, Roll
from hvd_gan.cluster.voice import say, say_last
from hvd_gan.cluster.wire import (
    LONGEST_LINE,
    RANK_UNREACHABLE_SECONDS,
    Invitation,
    Message,
    decode,
    encode,
    harden,
    listen,
    own_addresses,
)

# What falls over a rank that has died may be heard before that rank's end is.
ECHO_SECONDS = 5.0
# For the last words of all ranks, at most.
LAST_WORDS_SECONDS = 2.0
# How long rank 0 may take to finish a file that it writes.
FINISH_SECONDS = 5.0
FAREWELL_SECONDS = 5.0


class Hub:
    """Listens to all ranks in a thread of its own, rank 0's among them.

    The first failure, death or standstill is the job's: the hub says it, writes each rank's last
    words to `log/rank-N.txt`, tells all ranks, and ends this process.
    """

    def __init__(self, hosts: Sequence[str], stall_timeout: float, nic: str | None) -> None:
        now = time.monotonic()
        self._roll = Roll([Entry(host, now, now) for host in hosts], stall_timeout)
        self._socket = listen(nic)
        self._token = secrets.token_hex(16)
        self.invitation = Invitation(own_addresses(nic), self._socket.getsockname()[1], self._token)
        self.folder: Path | None = None
        self.undisturbed = threading.Lock()
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._left: set[int] = set()
        self._last_words: dict[int, str] = {}
        self._echo: str | None = None
        self._concluded = False
        self._verdict: str | None = None
        self._everyone_spoke = asyncio.Event()
        threading.Thread(target=self._run, name="hub", daemon=True).start()

    def _run(self) -> None:
        asyncio.run(self._listen())

    async def _listen(self) -> None:
        await asyncio.start_server(self._meet, sock=self._socket, limit=LONGEST_LINE)
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            for writer in self._writers.values():
                writer.write(encode({"beat": True}))
            # Ranks that have left are not missed; the others finish what they do.
            standstill = None if self._left else self._roll.standstill(time.monotonic())
            if standstill:
                await self._conclude(standstill)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        harden(writer.get_extra_info("socket"), RANK_UNREACHABLE_SECONDS)
        rank = None
        with contextlib.suppress(OSError, ValueError):
            hello = decode(await asyncio.wait_for(reader.readline(), BEAT_SECONDS * 5))
            known = secrets.compare_digest(str(hello.get("token")), self._token)
            if known and hello.get("rank") in range(len(self._roll.entries)):
                rank = int(hello["rank"])
        if rank is None:
            writer.close()
            return
        self._writers[rank] = writer
        spoke = False
        writer.write(encode({"welcome": rank}))
        end = "died without a word: it was killed, ran out of memory or crashed"
        try:
            while line := await reader.readline():
                spoke = True
                await self._hear(rank, decode(line))
        except ConnectionResetError:
            pass
        except Exception as error:
            end = f"cannot be reached any more: its host or the network is down ({error})"
        if self._writers.get(rank) is writer:
            del self._writers[rank]
        # A rank to which the welcome came late is trying another address.
        if spoke and rank not in self._left:
            await self._conclude(f"{self._roll.name(rank)} {end}")

    async def _hear(self, rank: int, message: Message) -> None:
        if "beat" in message:
            beat = message["beat"]
            self._roll.entries[rank].hear(time.monotonic(), *beat)
        elif "stacks" in message:
            if rank not in self._last_words:
                self._take_last_words(rank, message["stacks"])
        elif "failed" in message:
            self._take_last_words(rank, message["traceback"])
            text = f"{self._roll.name(rank)} failed: {message['failed']}"
            if not message["echo"]:
                await self._conclude(text)
            elif self._echo is None:
                self._echo = text
                asyncio.get_running_loop().call_later(ECHO_SECONDS, self._settle_for_the_echo)
        elif "bye" in message:
            self._left.add(rank)
            if self._left >= self._writers.keys():
                for writer in self._writers.values():
                    writer.write(encode({"farewell": True}))

    def _settle_for_the_echo(self) -> None:
        assert self._echo is not None
        self._task = asyncio.ensure_future(self._conclude(self._echo))

    async def _conclude(self, cause: str) -> None:
        """Tells everybody, once, and ends this process. Only the first cause counts."""
        if self._concluded:
            return
        self._concluded = True
        try:
            await self._end(cause)
        finally:
            # Whatever cannot be said or written: nobody is left waiting.
            os._exit(EXIT_FAILED)

    async def _end(self, cause: str) -> None:
        if len(self._roll.entries) == 1 or self.folder is None:
            with contextlib.suppress(OSError, ValueError):
                print("".join(self._last_words.values()), end="", file=sys.stderr, flush=True)
        else:
            say(f"tracebacks of all ranks: {self.folder}")
        say_last(cause)
        # A checkpoint that rank 0 is writing is whole: let it be finished.
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self.undisturbed.acquire, True, FINISH_SECONDS)
        self._verdict = f"{time.strftime('%Y-%m-%d %H:%M:%S')} {cause}"
        # Rank 0 is this process: its main thread may be stuck, and its time is short.
        self._last_words.setdefault(0, stacks())
        for rank in self._last_words:
            self._write_last_words(rank)
        for writer in self._writers.values():
            writer.write(encode({"verdict": cause}))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._everyone_spoke.wait(), LAST_WORDS_SECONDS)
        # A launcher that cannot reach a host waits for it; this tells its supervisor not to.
        leave_exit_code(EXIT_FAILED)

    def _take_last_words(self, rank: int, words: str) -> None:
        self._last_words[rank] = words
        # After the verdict each is written as it comes: a launcher may end rank 0 at any moment.
        if self._verdict is not None:
            self._write_last_words(rank)
        if self._writers.keys() <= self._last_words.keys():
            self._everyone_spoke.set()

    def _write_last_words(self, rank: int) -> None:
        if self.folder is None:
            return
        words = self._last_words[rank].rstrip()
        text = f"{self._verdict}\n{self._roll.name(rank)}:\n{words}\n\n"
        try:
            self.folder.mkdir(exist_ok=True)
            with (self.folder / f"rank-{rank}.txt").open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError:
            with contextlib.suppress(OSError, ValueError):
                print(text, end="", file=sys.stderr, flush=True)
