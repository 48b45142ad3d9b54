"""Layouts, storages, transfers and volumes, out of the installed package; bytes against a model."""

import functools
import gc
import os
import random
import select
import threading

import pytest

import kvtier
from kvtier import BlockInfo, HeadOrder, Kind, Layout, Storage, Tensors, Transfer

BLOCKS, SIZE = 6, 8192


def layout(kind=Kind.CONTIGUOUS, **more):
    """A block of 8192 bytes: 2 layers, keys and values, 16 tokens, 4 heads of 16 elements."""
    return Layout(kind, **{"layers": 2, "page_size": 16, "inner_dim": 64, "dtype": "bf16", "heads": 4, **more})


def tensors(shape, blocks=BLOCKS):
    return Tensors(shape, blocks, [bytearray(shape.allocation(blocks)) for _ in range(shape.info.parts)])


@functools.lru_cache(maxsize=None)
def content(number):
    return bytes((number * 37 + at * at // 7) % 251 for at in range(SIZE))


def packed(storage, block, transfer):
    """A block's bytes in the contiguous NHD layout, by way of memory."""
    with Storage.memory(1, SIZE, layout=layout() if storage.layout else None) as memory:
        transfer.copy(storage, memory, [(block, 0)])
        return bytes(memory.block(0))


def test_layouts_describe_themselves():
    shape = layout(Kind.UNIVERSAL, alignment=4096, tp_size=4, tp_rank=3)
    back = Layout.deserialize(shape.serialize())
    assert back.info == shape.info and back.tp == (3, 4) and back.kind == Kind.UNIVERSAL
    assert shape.info.block_size == SIZE and shape.info.parts == 1 and shape.info.fingerprint != 0
    shape.check_compatible(layout(Kind.UNIVERSAL, alignment=4096, tp_size=4, tp_rank=0))
    with pytest.raises(kvtier.LayoutMismatch, match="kind"):
        shape.check_compatible(layout(alignment=4096, tp_size=4))
    with pytest.raises(kvtier.LayoutMismatch, match="layers"):
        shape.check_convertible(layout(layers=4))
    damaged = bytearray(shape.serialize())
    damaged[9] ^= 1
    with pytest.raises(kvtier.Error, match="CORRUPT"):
        Layout.deserialize(bytes(damaged))
    with pytest.raises(kvtier.DtypeMismatch):
        layout(dtype="bf17")
    with pytest.raises(kvtier.Error, match="page_size"):
        layout(page_size=3)


def test_tensors_are_seen_in_place(seed):
    dice = random.Random(seed)
    for kind in Kind:
        buffers = tensors(layout(kind, alignment=dice.choice([1, 64, 4096])))
        plain = tensors(layout())
        plain.view(3)[0][:] = content(seed % 100)
        buffers.copy(1, plain, 3)
        assert buffers.checksum(1) == plain.checksum(3) != plain.checksum(2)
        runs = buffers.view(1, layer=1, outer=0)
        assert sum(len(run) for run in runs) == buffers.layout.info.region_size
        if kind != Kind.UNIVERSAL:
            region = buffers.layout.info.region_size
            assert bytes(runs[0]) == content(seed % 100)[2 * region:3 * region]
    with pytest.raises(kvtier.LayoutMismatch, match="buffers"):
        Tensors(layout(Kind.LAYERED), 2, [bytearray(SIZE * 2)])
    with pytest.raises(kvtier.StorageMismatch):
        Tensors(layout(), 1, [bytes(SIZE)])
    with pytest.raises(kvtier.LayoutMismatch, match="need"):
        Tensors(layout(), 2, [bytearray(SIZE)])
    with pytest.raises(kvtier.Error, match="RANGE"):
        plain.view(BLOCKS)


def test_tp_sizes_reshape_both_ways(seed):
    dice = random.Random(seed)
    for _ in range(10):
        one = tensors(layout(dice.choice(list(Kind)), heads=8, inner_dim=128), 1)
        raw = tensors(layout(heads=8, inner_dim=128), 1)
        raw.view(0)[0][:] = bytes(dice.randrange(256) for _ in range(2 * SIZE))
        one.copy(0, raw, 0)
        size, kind = dice.choice([2, 4, 8]), dice.choice(list(Kind))
        ranks = [tensors(layout(kind, heads=8 // size, inner_dim=128 // size, tp_size=size, tp_rank=rank), 1)
                 for rank in range(size)]
        for rank in ranks:
            rank.reshape(0, [one], 0)
        back = tensors(layout(heads=8, inner_dim=128), 1)
        back.reshape(0, ranks, 0)
        assert bytes(back.view(0)[0]) == bytes(raw.view(0)[0])
    with pytest.raises(kvtier.Error, match="INVALID"):
        back.reshape(0, ranks[::-1], 0)


def make_storages(folder):
    return [Storage.memory(BLOCKS, SIZE, layout=layout()),
            Storage.tensors(tensors(layout(Kind.LAYERED, alignment=4096))),
            Storage.tensors(tensors(layout(Kind.UNIVERSAL))),
            Storage.tensors(tensors(layout(order=HeadOrder.HND))),
            Storage.disk(folder / "disk", BLOCKS, SIZE, part_size=4096, buffered=True, layout=layout(Kind.LAYERED))]


def test_bytes_through_every_pair(tmp_path, seed):
    dice = random.Random(seed)
    storages = make_storages(tmp_path)
    held = [[None] * BLOCKS for _ in storages]
    with Transfer(bounce=(14, SIZE)) as transfer:
        for step in range(120):
            source, target = dice.randrange(len(storages)), dice.randrange(len(storages))
            pairs = [(dice.randrange(BLOCKS // 2), dice.randrange(BLOCKS // 2, BLOCKS))]
            if held[source][pairs[0][0]] is None or source == target:
                number = dice.randrange(BLOCKS)
                storages[0].block(number)[:] = content(step)
                held[0][number] = content(step)
                continue
            transfer.copy(storages[source], storages[target], pairs, priority=dice.choice(list(kvtier.Priority)))
            held[target][pairs[0][1]] = held[source][pairs[0][0]]
            # and into the half that is read
            transfer.copy(storages[target], storages[target], [(pairs[0][1], pairs[0][0])])
            held[target][pairs[0][0]] = held[target][pairs[0][1]]
        for storage, blocks in zip(storages, held):
            for number, expected in enumerate(blocks):
                assert expected is None or packed(storage, number, transfer) == expected
        assert sum(transfer.stats(path).blocks for path in kvtier.Path) > 20
    for storage in storages:
        storage.close()


def test_layers_and_two_hops(tmp_path):
    source, target = Storage.memory(2, SIZE, layout=layout()), Storage.tensors(tensors(layout(Kind.LAYERED), 2))
    middle = Storage.memory(2, SIZE)
    with Transfer(bounce=(14, SIZE)) as transfer:
        source.block(0)[:], source.block(1)[:] = content(1), content(2)
        transfer.copy(source, target, [(0, 0)])
        transfer.copy(source, target, [(1, 0)], layer=1, layers=1)
        assert packed(target, 0, transfer) == content(1)[:SIZE // 2] + content(2)[SIZE // 2:]
        told = []
        with Storage.disk(tmp_path / "disk", 2, SIZE, part_size=4096, buffered=True, layout=layout()) as disk:
            transfer.copy(source, disk, [(0, 1), (1, 0)])
            transfer.pipeline(disk, middle, target, [(1, 0, 1), (0, 1, 0)], landed=told.append)
            assert told and told[-1] == 2 and packed(target, 1, transfer) == content(1)
            with pytest.raises(kvtier.TransferError, match="RANGE") as caught:
                transfer.pipeline(disk, middle, target, [(0, 0, 9)])
            assert caught.value.statuses == ["RANGE"]
            with pytest.raises(kvtier.StorageMismatch):
                transfer.pipeline(disk, disk, target, [(0, 0, 0)])


def test_what_does_not_fit_is_refused(tmp_path):
    memory, small = Storage.memory(2, SIZE), Storage.memory(2, 4096)
    shaped = Storage.tensors(tensors(layout(Kind.LAYERED), 2))
    with Transfer() as transfer, Storage.disk(tmp_path / "disk", 2, SIZE, buffered=True) as disk:
        with pytest.raises(kvtier.LayoutMismatch, match="4096"):
            transfer.copy(memory, small, [(0, 0)])
        with pytest.raises(kvtier.LayoutMismatch, match="layers"):
            transfer.copy(shaped, Storage.memory(1, SIZE, layout=layout(layers=4, page_size=8)), [(0, 0)])
        with pytest.raises(kvtier.LayoutMismatch, match="without layouts"):
            transfer.copy(memory, shaped, [(0, 0)], layer=1)
        with pytest.raises(kvtier.StorageMismatch, match="bytearray"):
            transfer.copy(bytearray(SIZE), memory, [(0, 0)])
        with pytest.raises(kvtier.StorageMismatch, match="bounce"):
            transfer.copy(shaped, disk, [(0, 0)])  # neither end is host memory in one piece
        with pytest.raises(kvtier.Error, match="RANGE"):
            transfer.copy(memory, disk, [(0, 2)])
        with pytest.raises(kvtier.TransferError) as caught:
            transfer.copy(disk, memory, [(0, 0), (1, 1)])
        assert caught.value.statuses == ["NOTFOUND", "NOTFOUND"] and caught.value.code == "NOTFOUND"
        for storage in (disk, shaped):
            with pytest.raises(kvtier.StorageMismatch):
                storage.block(0)
        with pytest.raises(IndexError):
            memory.block(2)
    with pytest.raises(kvtier.LayoutMismatch):
        Storage.memory(2, 4095)
    with pytest.raises(kvtier.Error, match="INVALID"):
        Transfer(bounce=(2, SIZE))
    with pytest.raises(kvtier.Error, match="UNSUPPORTED"):
        kvtier.Device(library_file=str(tmp_path / "libcuda.so"))


def test_nothing_ends_while_it_is_used():
    source, target = Storage.memory(64, 1 << 20), Storage.memory(64, 1 << 20)
    transfer = Transfer(queue=4)
    view = source.block(3)
    tickets, fd = [], os.eventfd(0)
    with pytest.raises(BlockingIOError):
        for _ in range(1000):
            tickets.append(transfer.start(source, target, [(at, at) for at in range(64)], event_fd=fd))
            if not tickets[-1].finished:
                with pytest.raises(ValueError, match="used"):
                    source.close()
    cancelled = tickets[-1].cancel()
    for ticket in tickets[:-1]:
        ticket.wait()
    if cancelled:
        with pytest.raises(kvtier.TransferError, match="CANCELLED"):
            tickets[-1].wait()
        assert set(tickets[-1].statuses) == {"CANCELLED"}
    tickets.clear()
    gc.collect()
    assert select.select([fd], [], [], 10)[0] and os.eventfd_read(fd) > 0
    os.close(fd)
    transfer.start(source, target, [(0, 0)])  # forgotten: it is waited for
    transfer.close()
    source.close()
    target.close()
    view[:4] = b"kept"  # the memory lives as long as its views
    assert bytes(view[:4]) == b"kept"
    for call in (lambda: transfer.copy(source, target, [(0, 0)]), lambda: source.info):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_threads_wait_and_cancel_together(seed):
    dice = random.Random(seed)
    source, target = Storage.memory(8, 1 << 20), Storage.memory(8, 1 << 20)
    with Transfer() as transfer:
        for _ in range(50):
            ticket = transfer.start(source, target, [(at, at) for at in range(8)], timeout=None)
            threads = [threading.Thread(target=call) for call in
                       dice.sample([ticket.cancel, ticket.cancel, lambda: ticket.finished, ticket.close], 3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            ticket.close()
    source.close()


def test_a_kept_disk_finds_its_blocks(tmp_path):
    names = {at: BlockInfo(1000 + at, 7, at, 0, 5) for at in range(3)}
    memory = Storage.memory(4, SIZE)
    for at in range(3):
        memory.block(at)[:] = content(at)
    with Transfer() as transfer:
        options = {"keep": True, "fingerprint": 11, "buffered": True}
        with Storage.disk(tmp_path / "disk", 4, SIZE, **options) as disk:
            transfer.copy(memory, disk, [(at, at) for at in range(3)])
            disk.commit(names.items())
            with pytest.raises(kvtier.Error, match="NOTFOUND"):
                disk.commit([(3, BlockInfo(9))])
            disk.forget([1])
        with Storage.disk(tmp_path / "disk", 4, SIZE, **options) as disk:
            assert {one.block: one.info for one in disk.found()} == {0: names[0], 2: names[2]}
            transfer.copy(disk, memory, [(2, 3)])
            assert bytes(memory.block(3)) == content(2) and disk.info.found == 2
        raw = bytearray((tmp_path / "disk").read_bytes())
        raw[2 * SIZE + 5] ^= 1
        (tmp_path / "disk").write_bytes(raw)
        with Storage.disk(tmp_path / "disk", 4, SIZE, trust_index=True, **options) as disk:
            with pytest.raises(kvtier.TransferError, match="CORRUPT"):
                transfer.copy(disk, memory, [(2, 3)])
            assert disk.info.corrupt == 1


def test_garbage_ends_in_any_order():
    own = Own()
    for _ in range(3):
        volumes = kvtier.Volumes()
        volumes.register(1, kvtier.Volume.of(own, SIZE))
        one = Storage.volume(volumes, 1, 2, own_names_from=5)
        volumes.cycle, one.cycle = one, volumes  # only a collection of garbage ends them
        del volumes, one
        gc.collect()
    assert own.closed == 3


class Own(kvtier.VolumeDriver):
    def __init__(self):
        self.blocks, self.closed = {}, 0

    def get(self, name, into):
        if name.hash == 666:
            raise RuntimeError("this driver fails")
        if name not in self.blocks:
            return False
        into[:] = self.blocks[name]
        return True

    def put(self, name, data):
        return name not in self.blocks and self.blocks.setdefault(name, bytes(data)) is not None

    def remove(self, name):
        return self.blocks.pop(name, None) is not None

    def close(self):
        self.closed += 1


@pytest.mark.parametrize("kind", [None, *list(kvtier.VolumeKind)[:3]])
def test_volumes_keep_what_a_dict_keeps(tmp_path, seed, kind):
    dice, own = random.Random(seed), Own()

    def volume():
        if kind is None:
            return kvtier.Volume.of(own, SIZE)
        path = None if kind == kvtier.VolumeKind.RAM else tmp_path / "volume"
        return kvtier.Volume(kind, 32, SIZE, path=path, fingerprint=3)

    kept = {}
    with kvtier.Volumes() as volumes:
        volumes.register(5, volume())
        for step in range(60):
            names = [BlockInfo(100 + at, 0, at) for at in dice.sample(range(20), 4)]
            if dice.random() < 0.4:
                answers = volumes.put(5, [(name, content(step)) for name in names])
                assert [one.status for one in answers] == ["EXISTS" if name in kept else "OK" for name in names]
                for name in names:
                    kept.setdefault(name, content(step))
            elif dice.random() < 0.7:
                for name, answer in zip(names, volumes.get(5, names)):
                    assert answer == (("OK", kept[name]) if name in kept else ("NOTFOUND", None))
            else:
                answers = volumes.remove(5, names)
                assert [one.status for one in answers] == ["OK" if name in kept else "NOTFOUND" for name in names]
                for name in names:
                    kept.pop(name, None)
            if step == 30 and kind != kvtier.VolumeKind.RAM:
                volumes.unregister(5)
                with pytest.raises(kvtier.Error, match="NOTFOUND"):
                    volumes.get(5, names)
                volumes.register(5, volume())
        assert volumes.stats(5).stored > 0
        with pytest.raises(kvtier.LayoutMismatch):
            volumes.put(5, [(BlockInfo(1), bytes(SIZE - 1))])
        with pytest.raises(kvtier.Error, match="EXISTS"):
            volumes.register(5, volume() if kind in (None, kvtier.VolumeKind.RAM) else
                             kvtier.Volume(kvtier.VolumeKind.RAM, 1, SIZE))
    assert own.closed == (3 if kind is None else 0)


def test_a_driver_that_raises_is_an_error_of_its_block(capfd):
    with kvtier.Volumes() as volumes:
        volumes.register(1, kvtier.Volume.of(Own(), SIZE))
        answers = volumes.get(1, [BlockInfo(666), BlockInfo(1)])
        assert [one.status for one in answers] == ["IO", "NOTFOUND"]
    assert "this driver fails" in capfd.readouterr().err


def test_another_process_is_a_tier(tmp_path):
    """Its volume is asked through a socket; here both are one process."""
    theirs, ours, memory = kvtier.Volumes(), kvtier.Volumes(), Storage.memory(2, SIZE)
    own, names = Own(), [BlockInfo(31, 0, 0), BlockInfo(32, 31, 1)]
    theirs.register(1, kvtier.Volume.of(own, SIZE))
    peer = kvtier.Peer(tmp_path / "socket", theirs, fingerprint=9)
    ours.register(2, kvtier.Volume(kvtier.VolumeKind.PEER, 0, SIZE, path=tmp_path / "socket", fingerprint=9, number=1))
    with pytest.raises(ValueError, match="used"):
        theirs.close()
    with Transfer() as transfer, Storage.volume(ours, 2, 4) as remote:
        assert remote.kind == kvtier.StorageKind.REMOTE
        with pytest.raises(kvtier.TransferError, match="PRECONDITION"):
            transfer.copy(memory, remote, [(0, 3)])  # nobody said what it is called
        remote.bind([(3, names[0]), (1, names[1])])
        memory.block(0)[:], memory.block(1)[:] = content(1), content(2)
        transfer.copy(memory, remote, [(0, 3), (1, 1)])
        assert own.blocks == {names[0]: content(1), names[1]: content(2)}
        transfer.copy(remote, memory, [(1, 0)])
        assert bytes(memory.block(0)) == content(2)
        own.blocks[names[0]] = content(3)
        with pytest.raises(kvtier.TransferError, match="CORRUPT"):  # somebody else's whole block
            transfer.copy(remote, memory, [(3, 0)])
        assert bytes(memory.block(0)) == bytes(SIZE)
        peer.close()
        with pytest.raises(kvtier.TransferError, match="UNAVAILABLE"):
            transfer.copy(remote, memory, [(1, 0)])
    ours.close()
    theirs.close()
