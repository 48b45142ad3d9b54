"""Moving blocks between storages (kvtier/transfer.h)."""

import enum
from typing import Any, Callable, Iterable, List, NamedTuple, Optional, Tuple

from kvtier._abi import (AGAIN, CODES, FOREVER, OK, TIMEOUT, Error, Resource, check, ffi, library, new_error,
                         sized)
from kvtier.memory import LayoutMismatch, StorageMismatch
from kvtier.storage import Storage

BOUNCE_MIN = 14


class Path(enum.IntEnum):
    D2H = 0
    H2D = 1
    H2DISK = 2
    DISK2H = 3
    D2D = 4
    DISK2D = 5
    REMOTE = 6


class Priority(enum.IntEnum):
    NORMAL = 0
    HIGH = 1
    URGENT = 2


class TransferStats(NamedTuple):
    blocks: int
    bytes: int
    failed: int
    cancelled: int
    waiting: int


class TransferError(Error):
    """Not every block arrived; ``statuses`` has a code for each, in their order."""

    def __init__(self, code: int, text: str, statuses: List[str]) -> None:
        super().__init__(code, text)
        self.statuses = statuses


def _milliseconds(seconds: Optional[float]) -> int:
    return FOREVER if seconds is None else int(seconds * 1000)


def _refused(lib: Any, code: int, err: Any) -> None:
    """Raise why a request was not taken."""
    try:
        check(lib, code, err)
    except Error as error:
        if error.code == "PRECONDITION":
            raise LayoutMismatch(str(error)) from None
        if error.code == "UNSUPPORTED":
            raise StorageMismatch(str(error)) from None
        if code == AGAIN:
            raise BlockingIOError(str(error)) from None
        raise


def _check_pair(source: Any, target: Any) -> None:
    for storage in (source, target):
        if not isinstance(storage, Storage):
            raise StorageMismatch(f"a {type(storage).__name__} is no Storage")
    if source.layout is not None and target.layout is not None:
        target.layout.check_convertible(source.layout)
    elif source.block_size != target.block_size:
        raise LayoutMismatch(f"blocks of {source.block_size} bytes into blocks of {target.block_size}")


class Ticket(Resource):
    """A request that goes on by itself.  It keeps both storages open until it is finished; one that is
    forgotten is taken back, or waited for.  Any thread may wait or cancel."""

    _what = "ticket"

    def __init__(self, lib: Any, ticket: Any, copies: Any, held: "List[Resource]") -> None:
        """Not by programs."""
        def end(handle: Any) -> None:
            lib.kvt_ticket_release(handle)
            for one in held:
                one._let_go()
        super().__init__(lib, ticket, end)
        self._copies = copies

    def _wait(self, wait_ms: int) -> bool:
        try:
            with self._using() as ticket:
                return bool(self._lib.kvt_ticket_wait(ticket, wait_ms) != TIMEOUT)
        except ValueError:
            return True  # it has ended

    def close(self) -> None:
        """Take it back, or wait for it, and let go of the storages."""
        self.cancel()
        while not self._wait(FOREVER):
            pass
        self._end_unless_used()

    def _end_unless_used(self) -> None:
        with self._lock:
            if self._handle is None or self._count > 0:
                return  # whoever uses it ends it
            ticket, self._handle = self._handle, None
        self._end(ticket)

    def wait(self, timeout: Optional[float] = None) -> None:
        """Wait (``timeout`` in seconds) until every block has arrived.

        :class:`TimeoutError`: it is not finished; :class:`TransferError`: it is, but not every block arrived.
        """
        if not self._wait(_milliseconds(timeout)):
            raise TimeoutError("the copies go on")
        self._end_unless_used()
        bad = next((row for row in self._copies if row.status != OK), None)
        if bad is not None:
            raise TransferError(bad.status, f"block {bad.source} to {bad.target}", self.statuses)

    @property
    def finished(self) -> bool:
        return self._wait(0)

    @property
    def statuses(self) -> List[str]:
        """Of each copy; what they mean is known when it is finished."""
        return [CODES[row.status] for row in self._copies]

    def cancel(self) -> bool:
        """Take it back.  True: nothing was copied; False: it has begun, and what it had not come to is
        CANCELLED."""
        try:
            with self._using() as ticket:
                return bool(self._lib.kvt_ticket_cancel(ticket) == OK)
        except ValueError:
            return False  # it has ended


class Transfer(Resource):
    """One queue of ``queue`` requests and one thread for each path.

    ``bounce`` (blocks, bytes of a block): host memory for what neither end has; at least 14 blocks as large as
    any that needs it.
    """

    _what = "transfer manager"

    def __init__(self, *, queue: int = 128, bounce: Optional[Tuple[int, int]] = None) -> None:
        lib, out, err = library("kvbm"), ffi.new("struct kvt_transfer **"), new_error()
        self.bounce = None if bounce is None else Storage.memory(*bounce)
        held = ffi.NULL if self.bounce is None else self.bounce._hold()
        try:
            check(lib, lib.kvt_transfer_new(out, sized("kvt_transfer_options", queue_max=queue, bounce=held), err),
                  err)
        except BaseException:
            if self.bounce is not None:
                self.bounce._let_go()
            raise
        bounced = self.bounce

        def end(transfer: Any) -> None:
            lib.kvt_transfer_free(transfer)
            if bounced is not None:
                bounced._let_go()
        super().__init__(lib, out[0], end)

    def start(self, source: Storage, target: Storage, pairs: "Iterable[Tuple[int, int]]", *, layer: int = 0,
              layers: int = 0, priority: Priority = Priority.NORMAL, timeout: Optional[float] = 0,
              event_fd: int = 0) -> Ticket:
        """Copy blocks: ``pairs`` of source and target block.

        Where both storages have layouts, blocks go from one to the other: ``layers`` of them from ``layer`` on, 0
        for all that are left.  ``timeout``: seconds to wait for room in the queue; :class:`BlockingIOError` where
        there is none.  ``event_fd``: an ``os.eventfd()`` that is told of the end.
        """
        _check_pair(source, target)
        rows = [(one, other, 0) for one, other in pairs]
        copies, err = ffi.new("struct kvt_copy[]", rows), new_error()
        out = ffi.new("struct kvt_ticket **")
        held: List[Resource] = []
        try:
            for used in (self, source, target):
                used._hold()
                held.append(used)
            request = sized("kvt_copy_request", source=source._handle, target=target._handle, copies=copies,
                            count=len(rows), priority=int(priority), event_fd=event_fd)
            if source.layout is not None and target.layout is not None:
                request.source_layout, request.target_layout = source.layout._layout, target.layout._layout
                request.layer, request.layers = layer, layers
            elif (layer, layers) != (0, 0):
                raise LayoutMismatch("layers of storages without layouts")
            _refused(self._lib, self._lib.kvt_transfer_start(self._handle, request, _milliseconds(timeout), out, err),
                     err)
        except BaseException:
            for one in held:
                one._let_go()
            raise
        return Ticket(self._lib, out[0], copies, held)

    def copy(self, source: Storage, target: Storage, pairs: "Iterable[Tuple[int, int]]", *, layer: int = 0,
             layers: int = 0, priority: Priority = Priority.NORMAL) -> None:
        """The same to the end; :class:`TransferError` when not every block arrived."""
        self.start(source, target, pairs, layer=layer, layers=layers, priority=priority, timeout=None).wait()

    def pipeline(self, source: Storage, middle: Storage, target: Storage, relays: "Iterable[Tuple[int, int, int]]",
                 *, step: int = 1, priority: Priority = Priority.NORMAL,
                 landed: Optional[Callable[[int], None]] = None) -> None:
        """Copy blocks (source, middle, target) over two hops, ``step`` layers at a time; ``landed`` hears how many
        layers are there.  Source and target have layouts; the middle is host memory."""
        _check_pair(source, target)
        if source.layout is None or target.layout is None:
            raise LayoutMismatch("a pipeline needs layouts")
        if not isinstance(middle, Storage) or not middle.kind.host:
            raise StorageMismatch("the middle of a pipeline is host memory")
        rows = ffi.new("struct kvt_relay[]", [(*relay, 0) for relay in relays])
        call = ffi.NULL
        if landed is not None:
            told = landed
            call = ffi.callback("void(void *, uint32_t)", lambda _, count: told(count))
        err = new_error()
        with self._using() as transfer, source._using() as one, middle._using() as two, target._using() as three:
            request = sized("kvt_pipeline_request", source=one, middle=two, target=three, relays=rows,
                            count=len(rows), source_layout=source.layout._layout,
                            target_layout=target.layout._layout, step=step, priority=int(priority), landed=call)
            code = self._lib.kvt_transfer_pipeline(transfer, request, err)
        if code != OK:
            raise TransferError(code, ffi.string(err.text).decode("utf-8", "replace"),
                                [CODES[row.status] for row in rows])

    def stats(self, path: Path) -> TransferStats:
        row = sized("kvt_transfer_stats")
        with self._using() as transfer:
            self._lib.kvt_transfer_stats(transfer, int(path), row)
        return TransferStats(*[int(getattr(row, name)) for name in TransferStats._fields])
