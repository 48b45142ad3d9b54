import gc
import random
import threading

import pytest

import kvtier


def fill(pool, info):
    """One block under a name, held."""
    unique = pool.allocate(1)[0]
    unique.begin()
    unique.complete(info)
    return unique.register()


def test_sequences_name_blocks():
    sequence = kvtier.Sequence(4, range(10))
    assert len(sequence) == 10 and len(sequence.hashes) == 2
    first, second = sequence.block(0), sequence.block(1)
    assert (first.parent, second.parent, second.position) == (0, first.hash, 1)
    assert second.prefix_hash == second.hash == sequence.hashes[1]
    with pytest.raises(IndexError):
        sequence.block(2)
    sequence.append([10, 11])
    assert len(sequence.hashes) == 3 and sequence.hashes[:2] == [first.hash, second.hash]
    sequence.truncate(5)
    assert sequence.hashes == [first.hash]
    assert kvtier.Sequence(4, range(4), adapter="a").hashes != kvtier.Sequence(4, range(4)).hashes
    with pytest.raises(kvtier.Error) as caught:
        kvtier.Sequence(0)
    assert caught.value.code == "INVALID"


def test_what_ends_a_c_program_raises():
    pool = kvtier.Pool(2)
    unique = pool.allocate(1)[0]
    with pytest.raises(kvtier.Error) as caught:
        unique.register()
    assert caught.value.code == "INVALID" and "INVALID" in str(caught.value)
    with pytest.raises(ValueError, match="held"):
        pool.close()
    with pytest.raises(BlockingIOError):
        pool.allocate(2)
    unique.drop()
    for again in (unique.drop, unique.begin, unique.register, lambda: unique.block):
        with pytest.raises(ValueError, match="ended"):
            again()
    pool.close()
    with pytest.raises(ValueError, match="closed"):
        pool.usage()


def test_handles_end_with_their_scope():
    pool = kvtier.Pool(2)
    with fill(pool, kvtier.BlockInfo(7)) as shared:
        assert shared.info.hash == 7 and 7 in pool
        weak = shared.weak()
        with shared.copy() as other:
            assert other.block == shared.block
    assert pool.usage().active == 0
    with weak.upgrade() as back:
        assert back.info == kvtier.BlockInfo(7)
    pool.match([7])
    gc.collect()
    assert pool.usage().active == 0
    assert pool.clear() == 1 and weak.upgrade() is None
    pool.close()


def try_to_close(pool, said):
    """What another thread hears that closes the pool now."""
    def close():
        try:
            pool.close()
            said.append("closed")
        except ValueError as error:
            said.append(str(error))

    thread = threading.Thread(target=close)
    thread.start()
    thread.join()


def test_nobody_closes_the_pool_under_a_call():
    """A callback runs in the middle of the call that makes it: there the pool is tried to be closed."""
    said = []
    pool = kvtier.Pool(1, on_store=lambda info: try_to_close(pool, said),
                       on_remove=lambda info: try_to_close(pool, said))
    fill(pool, kvtier.BlockInfo(7)).discard()
    fill(pool, kvtier.BlockInfo(8)).drop()
    pool.allocate(1)[0].drop()  # evicts
    fill(pool, kvtier.BlockInfo(9)).drop()
    pool.clear()
    assert len(said) == 6 and all("held" in text for text in said)
    pool.close()


def test_a_handle_ends_once():
    """Whether another thread, or a callback in the middle of the call, tries as well."""
    threads, said = [], []

    def drop(unique):
        try:
            unique.drop()
            said.append("dropped")
        except ValueError as error:
            said.append(str(error))

    def told(info):
        drop(unique)
        threads.append(threading.Thread(target=drop, args=(unique,)))
        threads[-1].start()

    pool = kvtier.Pool(2, on_store=told)
    unique = pool.allocate(1)[0]
    unique.begin()
    unique.complete(kvtier.BlockInfo(7))
    shared = unique.register()
    threads[0].join()
    assert said == ["the handle has ended"] * 2
    shared.drop()
    pool.close()


def test_threads_share_handles(seed):
    """Each of them drops, copies and reads what all of them hold; every handle ends once."""
    pool = kvtier.Pool(4)
    held = [fill(pool, kvtier.BlockInfo(name)) for name in range(1, 4) for _ in range(100)]
    ended = []

    def run(number):
        rng, count = random.Random(f"{seed}/{number}"), 0
        for shared in rng.sample(held, len(held)):
            try:
                with shared.copy() as other:
                    assert other.info == shared.info
                pool.match([1, 2, 3])
                shared.drop()
                count += 1
            except ValueError:
                pass
        ended.append(count)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ended) == 4 and sum(ended) == len(held)
    gc.collect()
    assert pool.usage().active == 0
    pool.close()


def test_known_names_give_the_block_that_has_them():
    with kvtier.Pool(3) as pool:
        first, second = fill(pool, kvtier.BlockInfo(9)), fill(pool, kvtier.BlockInfo(9))
        assert first.block == second.block and pool.usage().free == 2
        with pytest.raises(kvtier.Error):
            first.set_priority(99)
        first.drop()
        second.discard()
        assert 9 not in pool


@pytest.mark.parametrize("order", list(kvtier.Order))
def test_events_equal_the_content(seed, order):
    """Whatever happens, what was told last of a name is whether it is there."""
    rng, names = random.Random(f"{seed}/{order}"), set()
    pool = kvtier.Pool(16, order=order, on_store=lambda info: names.add(info.hash),
                       on_remove=lambda info: names.remove(info.hash))
    held = []
    for _ in range(4000):
        name = rng.randrange(1, 60)
        what = rng.random()
        if what < 0.5 and len(held) < 12:
            held.append(fill(pool, kvtier.BlockInfo(name, 0, 0)))
        elif what < 0.7 and len(held) < 12:
            found = pool.scan([name, name + 1])
            assert [one is not None for one in found] == [name in names, name + 1 in names]
            held.extend(one for one in found if one is not None)
        elif what < 0.72:
            pool.clear()
        elif held:
            handle = held.pop(rng.randrange(len(held)))
            handle.drop() if rng.random() < 0.9 else handle.discard()
        assert {at for at in range(1, 62) if at in pool} == names
    for handle in held:
        handle.drop()
    usage = pool.usage()
    assert (usage.active, usage.inactive, usage.free) == (0, len(names), 16 - len(names))
    pool.close()


def test_memory_that_does_not_fit_is_refused():
    host = kvtier.Memory(4, 8, "bf16")
    assert host.block_bytes == 16
    host.block(1)[:] = bytes(range(16))
    target = kvtier.Memory(2, 8, "bf16", kind=kvtier.StorageKind.PINNED, buffer=bytearray(32))
    kvtier.copy_block(host, 1, target, 0)
    assert bytes(target.block(0)) == bytes(range(16)) and not any(target.block(1))
    with pytest.raises(kvtier.DtypeMismatch, match="bf16 is not fp16"):
        kvtier.copy_block(host, 0, kvtier.Memory(4, 8, "fp16"), 0)
    with pytest.raises(kvtier.LayoutMismatch, match="8 elements"):
        kvtier.copy_block(host, 0, kvtier.Memory(4, 4, "bf16"), 0)
    device = kvtier.Memory(4, 8, "bf16", kind=kvtier.StorageKind.DEVICE)
    for pair in ((host, device), (device, host)):
        with pytest.raises(kvtier.StorageMismatch, match="device"):
            kvtier.copy_block(pair[0], 0, pair[1], 0)
    with pytest.raises(kvtier.StorageMismatch):
        device.block(0)
    with pytest.raises(kvtier.StorageMismatch):
        kvtier.Memory(1, 8, "bf16", kind=kvtier.StorageKind.DISK, buffer=bytearray(16))
    with pytest.raises(kvtier.StorageMismatch):
        kvtier.Memory(1, 8, "bf16", buffer=bytes(16))
    with pytest.raises(kvtier.LayoutMismatch):
        kvtier.Memory(1, 8, "bf16", buffer=bytearray(15))
    with pytest.raises(kvtier.DtypeMismatch, match="bf17"):
        kvtier.Memory(1, 8, "bf17")
    with pytest.raises(IndexError):
        host.block(4)
