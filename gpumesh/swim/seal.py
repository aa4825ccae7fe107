"""Sealing: only hosts of the same fleet, with a key of the fleet, are understood, and nothing is taken twice.

A sealed datagram is a 35-byte header, then AES-256-GCM over the body with header and fleet label as
associated data:

====== ===== =======================================================================================
offset bytes what
====== ===== =======================================================================================
0      2     ``gm``, or ``gu`` for an unkeyed fleet on loopback
2      1     version of the wire
3      4     key id, zero when unkeyed
7      4     start of SHA-256 of the label: tells two fleets apart before any key is tried
11     16    session: random, made by each daemon run
27     8     counter within the session: the nonce
====== ===== =======================================================================================

Each session has a key of its own, HKDF(fleet key, salt = session), so that a counter may serve as nonce
although all hosts share one fleet key: a nonce repeats only if two runs drew the same 128 bits. A window
over the counter refuses replays. A recording of a session that this host has not seen yet passes once;
therefore only an answer to a question asked here proves that a session lives, and what is not proven is
no evidence of life.

Streams are bound to 16 random bytes from each end, so that a recorded stream opens nowhere.
"""

from __future__ import annotations

import hashlib
import struct
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gpumesh.config.keyring import KEY_ID_BYTES, FleetKey, Keyring
from gpumesh.errors import ReflectedError, RejectedError
from gpumesh.swim.hkdf import derive
from gpumesh.swim.replay import ReplayWindow

VERSION: Final = 1
SESSION_BYTES: Final = 16
TAG_BYTES: Final = 16
LABEL_TAG_BYTES: Final = 4
KEYED_MAGIC: Final = b"gm"
UNKEYED_MAGIC: Final = b"gu"
NO_KEY_ID: Final = bytes(KEY_ID_BYTES)
_HEADER: Final = struct.Struct(">2sB4s4s16sQ")
_NONCE_PREFIX: Final = bytes(4)
MAX_COUNTER: Final = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Opened:
    """The body of a datagram that was sealed by a host of this fleet, and the session it came in."""

    body: bytes
    session: bytes
    is_newest: bool
    """Nothing that was sent later has been opened here: a recording of it is old as soon as something is."""


class StreamSealer(Protocol):
    """Seals and opens the frames of one stream in order."""

    overhead_bytes: int

    def seal(self, body: bytes) -> bytes:
        """Return the next frame to send."""
        ...

    def open(self, frame: bytes) -> bytes:
        """Return the body of the next frame received; raises :class:`RejectedError`."""
        ...


class Sealer(Protocol):
    """Seals and opens datagrams, and makes the sealers of streams."""

    overhead_bytes: int
    """What sealing adds to a datagram's body."""
    key_ids: tuple[str, ...]
    """Ids of the keys accepted, the sending one first; empty when unkeyed."""
    unknown_key_id: str | None
    """Id of the last key seen that is not in the ring: another fleet's, or the one this host lacks."""

    max_sessions: int
    """Replay windows that may be kept."""

    @property
    def num_sessions(self) -> int:
        """Replay windows kept, for metrics."""
        ...

    def seal(self, body: bytes) -> bytes:
        """Return a datagram."""
        ...

    def open(self, data: bytes) -> Opened:
        """Return what a datagram holds; raises :class:`RejectedError`, whose reason is counted."""
        ...

    @property
    def sending_key_id(self) -> bytes:
        """Id of the key that seals, zero when unkeyed."""
        ...

    def check_key_id(self, key_id: bytes) -> None:
        """Raise :class:`RejectedError` if a peer that sends with this key cannot be understood."""
        ...

    def stream(self, opener: bytes, acceptor: bytes, *, is_opener: bool) -> StreamSealer:
        """Return the sealer of a stream bound to both ends' challenges."""
        ...


class _Session:
    __slots__ = ("cipher", "window")

    def __init__(self, cipher: AESGCM | None) -> None:
        self.cipher = cipher
        self.window = ReplayWindow()


class FleetSealer:
    """The sealer of one daemon run: keyed, or unkeyed (``keyring`` None) where only loopback listens.

    ``session`` is 16 fresh random bytes for each run. At most ``max_sessions`` replay windows are kept, the
    longest unused give way; none is given up for its age, since what was recorded would then pass once more.
    """

    def __init__(
        self, keyring: Keyring | None, fleet: str, session: bytes, max_sessions: int = 16_384
    ) -> None:
        if len(session) != SESSION_BYTES:
            raise ValueError(f"a session id is {SESSION_BYTES} bytes, this one {len(session)}")
        self._label = fleet.encode()
        self._label_tag = hashlib.sha256(self._label).digest()[:LABEL_TAG_BYTES]
        self._session = session
        self._counter = 0
        self.max_sessions = max_sessions
        self._sessions: OrderedDict[tuple[bytes, bytes], _Session] = OrderedDict()
        self.unknown_key_id: str | None = None
        self.rekey(keyring)

    def rekey(self, keyring: Keyring | None) -> None:
        """Accept and send with another ring from now on; windows of keys that stay are kept."""
        self._keys = {key.key_id: key for key in keyring.keys} if keyring else {}
        self.key_ids = keyring.key_ids if keyring else ()
        self._magic = KEYED_MAGIC if keyring else UNKEYED_MAGIC
        self._key_id = keyring.keys[0].key_id if keyring else NO_KEY_ID
        self._cipher = self._cipher_of(self._key_id, self._session)
        self.overhead_bytes = _HEADER.size + (TAG_BYTES if keyring else 0)
        for known in [known for known in self._sessions if known[0] not in self._keys and keyring]:
            del self._sessions[known]

    @property
    def num_sessions(self) -> int:
        """Replay windows kept, for metrics."""
        return len(self._sessions)

    def seal(self, body: bytes) -> bytes:
        """Return a datagram holding the body."""
        self._counter += 1
        header = _HEADER.pack(
            self._magic, VERSION, self._key_id, self._label_tag, self._session, self._counter
        )
        if self._cipher is None:
            return header + body
        nonce = _NONCE_PREFIX + header[-8:]
        return header + self._cipher.encrypt(nonce, body, header + self._label)

    def open(self, data: bytes) -> Opened:
        """Return what a datagram holds; raises :class:`RejectedError` and then has changed nothing.

        :class:`ReflectedError` for one of its own, proven like any other: its header alone is no secret.
        """
        key_id, session_id, counter = self._read_header(data)
        if session_id == self._session:
            raise ReflectedError(self._decrypt(self._cipher_of(key_id, session_id), data))
        session = self._sessions.get((key_id, session_id))
        if session is None:
            session = _Session(self._cipher_of(key_id, session_id))
        elif not session.window.is_fresh(counter):
            raise RejectedError("replay", f"counter {counter}")
        body = self._decrypt(session.cipher, data)
        is_newest = session.window.accept(counter)
        self._keep((key_id, session_id), session)
        return Opened(body, session_id, is_newest)

    def stream(self, opener: bytes, acceptor: bytes, *, is_opener: bool) -> StreamSealer:
        """Return the sealer of a stream bound to both ends' challenges."""
        if not self._keys:
            return _PlainStream(self._label_tag)
        return _SealedStream(self, self._label, opener + acceptor, is_opener=is_opener)

    @property
    def sending_key_id(self) -> bytes:
        """Id of the key that seals, zero when unkeyed."""
        return self._key_id

    def check_key_id(self, key_id: bytes) -> None:
        """Raise :class:`RejectedError`, and remember the id, if a peer with this key is not understood."""
        if self._keys or key_id != NO_KEY_ID:
            self.key(key_id)

    def sending_key(self) -> FleetKey:
        """Return the key that seals; only for a keyed sealer."""
        return self._keys[self._key_id]

    def key(self, key_id: bytes) -> FleetKey:
        """Return the key with this id; an unknown id is remembered and raises :class:`RejectedError`."""
        key = self._keys.get(key_id)
        if key is None:
            self.unknown_key_id = key_id.hex()
            raise RejectedError("unknown_key", self.unknown_key_id)
        return key

    def _read_header(self, data: bytes) -> tuple[bytes, bytes, int]:
        if len(data) < self.overhead_bytes:
            raise RejectedError("malformed", "shorter than a header")
        magic, version, key_id, label_tag, session_id, counter = _HEADER.unpack_from(data)
        if magic != self._magic:
            if magic == UNKEYED_MAGIC:
                raise RejectedError("unkeyed", "this fleet has a key")
            if magic == KEYED_MAGIC:
                self.unknown_key_id = key_id.hex()
                raise RejectedError("unknown_key", key_id.hex())
            raise RejectedError("malformed", "not gpumesh")
        if version != VERSION:
            raise RejectedError("version", str(version))
        if label_tag != self._label_tag:
            raise RejectedError("bad_label")
        return key_id, session_id, counter

    def _decrypt(self, cipher: AESGCM | None, data: bytes) -> bytes:
        header, body = data[: _HEADER.size], data[_HEADER.size :]
        if cipher is None:
            return body
        try:
            return cipher.decrypt(_NONCE_PREFIX + header[-8:], body, header + self._label)
        except InvalidTag:
            raise RejectedError("bad_tag") from None

    def _cipher_of(self, key_id: bytes, session_id: bytes) -> AESGCM | None:
        if not self._keys:
            return None
        info = b"gpumesh datagram" + bytes([VERSION]) + self._label
        return AESGCM(derive(self.key(key_id).secret, session_id, info))

    def _keep(self, name: tuple[bytes, bytes], session: _Session) -> None:
        self._sessions[name] = session
        self._sessions.move_to_end(name)
        if len(self._sessions) > self.max_sessions:
            self._sessions.popitem(last=False)


class _PlainStream:
    """Frames of an unkeyed fleet: the label alone tells it from another."""

    overhead_bytes = LABEL_TAG_BYTES

    def __init__(self, label_tag: bytes) -> None:
        self._label_tag = label_tag

    def seal(self, body: bytes) -> bytes:
        return self._label_tag + body

    def open(self, frame: bytes) -> bytes:
        if frame[:LABEL_TAG_BYTES] != self._label_tag:
            raise RejectedError("bad_label")
        return frame[LABEL_TAG_BYTES:]


class _SealedStream:
    """Frames sealed under keys made from the fleet key and both challenges, one key each way.

    The nonce is the frame's number, so frames can be neither left out, doubled nor reordered.
    """

    overhead_bytes = KEY_ID_BYTES + TAG_BYTES

    def __init__(self, sealer: FleetSealer, label: bytes, salt: bytes, *, is_opener: bool) -> None:
        self._sealer = sealer
        self._label = label
        self._salt = salt
        key = sealer.sending_key()
        self._key_id = key.key_id
        self._out = self._cipher(key, to_acceptor=is_opener)
        self._in: AESGCM | None = None
        self._in_key_id = b""
        self._is_opener = is_opener
        self._num_out = 0
        self._num_in = 0

    def seal(self, body: bytes) -> bytes:
        nonce = self._num_out.to_bytes(12, "big")
        self._num_out += 1
        return self._key_id + self._out.encrypt(nonce, body, self._key_id)

    def open(self, frame: bytes) -> bytes:
        key_id = frame[:KEY_ID_BYTES]
        if self._in is None:
            self._in = self._cipher(self._sealer.key(key_id), to_acceptor=not self._is_opener)
            self._in_key_id = key_id
        if len(frame) < self.overhead_bytes or key_id != self._in_key_id:
            raise RejectedError("malformed", "stream frame")
        try:
            body = self._in.decrypt(self._num_in.to_bytes(12, "big"), frame[KEY_ID_BYTES:], key_id)
        except InvalidTag:
            raise RejectedError("bad_tag", "stream frame") from None
        self._num_in += 1
        return body

    def _cipher(self, key: FleetKey, *, to_acceptor: bool) -> AESGCM:
        info = b"gpumesh stream" + bytes([VERSION, to_acceptor]) + self._label
        return AESGCM(derive(key.secret, self._salt, info))
