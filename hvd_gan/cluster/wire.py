"""The wire between a rank and rank 0, beside MPI and Gloo: lines of JSON over TCP.

It has to carry words when those cannot: when a rank has died, is stuck, or cannot be reached.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psutil

CONNECT_SECONDS = 5.0
# How long the other end may leave data unacknowledged, or be silent, before it counts as gone. A
# process that is only stopped is not: its kernel goes on answering. Rank 0's hub is the first to
# find out, as it can say which rank; then mpirun's daemons (network.KEEPALIVE), which are to find
# their ranks alive: one that has to tell mpirun of a rank's end waits many minutes for an answer.
RANK_UNREACHABLE_SECONDS = 10
ROOT_UNREACHABLE_SECONDS = 20
LONGEST_LINE = 2**20

Message = dict[str, Any]


@dataclass(frozen=True)
class Invitation:
    """Where rank 0 listens, and the word by which it knows its own ranks."""

    addresses: tuple[str, ...]
    port: int
    token: str


def encode(message: Message) -> bytes:
    """A message as one line."""
    return json.dumps(message).encode() + b"\n"


def decode(line: bytes) -> Message:
    """A line's message. Raises ValueError if it is none."""
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError("not a message")
    return message


def own_addresses(nic: str | None = None) -> tuple[str, ...]:
    """This host's addresses, of one network interface or of all but the loopback."""
    return tuple(
        entry.address.split("%")[0]
        for name, entries in psutil.net_if_addrs().items()
        for entry in entries
        if entry.family in (socket.AF_INET, socket.AF_INET6)
        and (name == nic if nic else not entry.address.startswith(("127.", "::1", "fe80")))
    )


def listen(nic: str | None = None) -> socket.socket:
    """A socket on a free port, of one network interface or of all."""
    addresses = own_addresses(nic) if nic else ()
    if addresses:
        family = socket.AF_INET6 if ":" in addresses[0] else socket.AF_INET
        return socket.create_server((addresses[0], 0), family=family, backlog=1024)
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    return socket.create_server(("", 0), family=family, dualstack_ipv6=both, backlog=1024)


class Wire:
    """A connection to rank 0, as one of its ranks."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._incoming = connection.makefile("rb")
        self._sending = threading.Lock()

    def send(self, message: Message) -> None:
        """Sends a message, from any thread. Raises OSError."""
        with self._sending:
            self._connection.sendall(encode(message))

    def receive(self) -> Message | None:
        """The next message; None at the end. Raises OSError or ValueError."""
        line = self._incoming.readline(LONGEST_LINE)
        return decode(line) if line else None

    def wait_at_most(self, seconds: float | None) -> None:
        """Lets `receive` raise TimeoutError after a time; None: never."""
        self._connection.settimeout(seconds)


def connect(invitation: Invitation, rank: int, addresses: Sequence[str]) -> Wire:
    """A connection to rank 0, by the first address that answers. Raises OSError if none does."""
    failures: list[str] = []
    for address in dict.fromkeys(addresses):
        try:
            connection = socket.create_connection((address, invitation.port), CONNECT_SECONDS)
            harden(connection, ROOT_UNREACHABLE_SECONDS)
            wire = Wire(connection)
            wire.send({"rank": rank, "token": invitation.token})
            # Whoever else may listen there does not answer so.
            if wire.receive() == {"welcome": rank}:
                wire.wait_at_most(None)
                return wire
            failures.append(f"{address}: somebody else's")
        except (OSError, ValueError) as error:
            failures.append(f"{address}: {error or type(error).__name__}")
    raise OSError("; ".join(failures) or "rank 0 has no address")


def harden(wire: socket.socket, unreachable: int) -> None:
    """Lets the kernel notice that the other end cannot be reached any more, after some seconds."""
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", 5),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", unreachable // 5),
        ("TCP_USER_TIMEOUT", unreachable * 1000),
    ):
        if hasattr(socket, option):
            wire.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
