"""One stream as bytes: a challenge each way, then sealed frames with a length before each.

Each end opens with 24 bytes in the clear: ``gms``, the version, the id of the key it sends with, and a
challenge of 16 random bytes. All that follows is sealed under keys made from both challenges, so a recorded
stream opens nowhere, and whoever has no key learns nothing but the key's id, which every datagram shows too:
by it a host that was off during a rotation can say which key it lacks (serf#579). A frame's length is held
against its bound as soon as its four bytes are there, before anything is kept for it.
"""

from __future__ import annotations

from typing import Final

from gpumesh.config.keyring import KEY_ID_BYTES
from gpumesh.errors import RejectedError
from gpumesh.swim.parameters import MAX_FRAME_BYTES
from gpumesh.swim.seal import VERSION, Sealer, StreamSealer

CHALLENGE_BYTES: Final = 16
PREAMBLE: Final = b"gms" + bytes([VERSION])
PREAMBLE_BYTES: Final = len(PREAMBLE) + KEY_ID_BYTES + CHALLENGE_BYTES
LENGTH_BYTES: Final = 4
FRAME_SLACK_BYTES: Final = 64
"""For the framing around a full page."""


class Channel:
    """Turns chunks of bytes into authenticated bodies and back; knows nothing of what they mean."""

    def __init__(self, sealer: Sealer, challenge: bytes, limit_bytes: int, *, is_opener: bool) -> None:
        self._sealer = sealer
        self._challenge = challenge
        self._limit_bytes = limit_bytes
        self._is_opener = is_opener
        self._buffer = bytearray()
        self._num_bytes = 0
        self._frames: StreamSealer | None = None
        self.is_proven = False
        """A frame has been opened: the other end holds a key of the fleet."""

    @property
    def is_ready(self) -> bool:
        """The other end's challenge is known, so frames can be sealed."""
        return self._frames is not None

    def preamble(self) -> bytes:
        """Return what this end opens with."""
        return PREAMBLE + self._sealer.sending_key_id + self._challenge

    def seal(self, body: bytes) -> bytes:
        """Return the bytes of one frame; only once the channel is ready."""
        if self._frames is None:
            raise RejectedError("malformed", "stream is not ready")
        frame = self._frames.seal(body)
        return len(frame).to_bytes(LENGTH_BYTES, "big") + frame

    def feed(self, data: bytes) -> list[bytes]:
        """Take a chunk and return the bodies it completes.

        Raises :class:`RejectedError`; the stream is over then.
        """
        self._num_bytes += len(data)
        if self._num_bytes > self._limit_bytes:
            raise RejectedError("too_large", "stream")
        self._buffer += data
        if self._frames is None and not self._read_preamble():
            return []
        bodies = []
        while (body := self._next_body()) is not None:
            bodies.append(body)
        return bodies

    def _read_preamble(self) -> bool:
        head = bytes(self._buffer[: len(PREAMBLE)])
        if not PREAMBLE.startswith(head) and head != PREAMBLE:
            is_ours = head[:3] == PREAMBLE[:3]
            raise RejectedError("version" if is_ours else "malformed", "stream preamble")
        if len(self._buffer) < PREAMBLE_BYTES:
            return False
        self._sealer.check_key_id(bytes(self._buffer[len(PREAMBLE) : len(PREAMBLE) + KEY_ID_BYTES]))
        theirs = bytes(self._buffer[len(PREAMBLE) + KEY_ID_BYTES : PREAMBLE_BYTES])
        del self._buffer[:PREAMBLE_BYTES]
        if theirs == self._challenge:
            raise RejectedError("reflected", "stream")
        opener, acceptor = (self._challenge, theirs) if self._is_opener else (theirs, self._challenge)
        self._frames = self._sealer.stream(opener, acceptor, is_opener=self._is_opener)
        return True

    def _next_body(self) -> bytes | None:
        if self._frames is None or len(self._buffer) < LENGTH_BYTES:
            return None
        size = int.from_bytes(self._buffer[:LENGTH_BYTES], "big")
        if size > MAX_FRAME_BYTES + FRAME_SLACK_BYTES + self._frames.overhead_bytes:
            raise RejectedError("too_large", "stream frame")
        if len(self._buffer) < LENGTH_BYTES + size:
            return None
        frame = bytes(self._buffer[LENGTH_BYTES : LENGTH_BYTES + size])
        del self._buffer[: LENGTH_BYTES + size]
        body = self._frames.open(frame)
        self.is_proven = True
        return body
