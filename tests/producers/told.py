"""Stories: what producers are told to publish, and what a reader must then understand.

A story is a list of steps of one publisher.  Each step is what a driver is told and the events that must
come out, in the words of tests/fixtures/producers/README.md.  Hashes are anywhere in 64 bits.
"""

import hashes

TIERS = {"GPU": "g1", "CPU": "g2", "CPU_PINNED": "g2", "CPU_TIER1": "g2", "STORAGE": "g3", "DISK": "g3",
         "CPU_TIER2": "g3", "EXTERNAL": "g4"}
EDGES = [0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]  # names of blocks that conversions get wrong


class Names:
    """Block hashes: the edges of 64 bits first, then anything; tokens; never twice the same."""

    def __init__(self, rng):
        self.rng, self.edges, self.used = rng, list(EDGES), set()

    def block(self):
        while True:
            value = self.edges.pop() if self.edges else self.rng.getrandbits(64)
            if value not in self.used:
                self.used.add(value)
                return value

    def blocks(self, count):
        return [self.block() for _ in range(count)]

    def tokens(self, count):
        return [self.rng.getrandbits(self.rng.choice((7, 8, 15, 16, 17, 31))) for _ in range(count)]


def store(found, tokens=(), block=4, parent=None, lora=None, salt=None, media=None, tier="g1", **more):
    event = {"kind": "store", "tier": tier, "hashes": found}
    if parent is not None:
        event["parent"] = parent
    event["tokens_hashes"] = hashes.local(tokens, block, lora, salt, media)
    if media:
        event["media"] = [sorted(values) for values in media]
    return {**event, **more}


def published(names, block=4, salts=True, counted=True):
    """Everything the publisher's own interface can say.  Steps: (command, arguments, events).

    `counted`: removes are counted against stores; `salts`: the interface knows cache salts."""
    steps, t, b = [], names.tokens, names.blocks

    def tell(tokens, found, parent=None, **more):
        steps.append(("store", {"tokens": tokens, "hashes": found, "parent": parent, "block": block, **more},
                      [store(found, tokens, block, parent, **more)]))

    root = b(5)
    tell(t(5 * block), root)
    child = b(2)
    tell(t(2 * block), child, root[-1])
    adapted = b(2)
    tell(t(2 * block), adapted, lora="adapter-a")
    tell(t(block), b(1), adapted[-1], lora="adapter-a")
    if salts:
        salted = b(2)
        tell(t(2 * block), salted, salt="tenant-a")
        tell(t(2 * block), b(2), lora="adapter-ü", salt="tenant-ä")
    media = [[], [names.rng.getrandbits(64)], [names.rng.getrandbits(64), 1, (1 << 64) - 1]]
    tell(t(3 * block), b(3), media=media)
    wide = b(24)
    tell(t(24 * block), wide)
    steps.append(("remove", {"hashes": [child[1]]}, [{"kind": "remove", "tier": "g1",
                                                      "hashes": [child[1]]}]))
    ends = wide[:13:-1]  # a chain goes from its end: no publisher removes what others still build on
    steps.append(("remove", {"hashes": ends}, [{"kind": "remove", "tier": "g1", "hashes": ends}]))
    # The same blocks once more: a store is always published, a remove only when it is the last.
    tokens = t(2 * block)
    twice = b(2)
    tell(tokens, twice)
    tell(tokens, twice)
    gone = [{"kind": "remove", "tier": "g1", "hashes": twice}]
    steps.append(("remove", {"hashes": twice}, [] if counted else gone))
    steps.append(("remove", {"hashes": twice}, gone))
    return steps


def batched(names, block=4):
    """Lists of events handed over as one (1.6.1)."""
    t, b = names.tokens, names.blocks
    first, second, third = b(2), b(3), b(1)
    one, two, three = t(2 * block), t(3 * block), t(block)
    mixed = [{"store": {"tokens": one, "hashes": first, "block": block}},
             {"remove": {"hashes": [first[1]]}},
             {"store": {"tokens": two, "hashes": second, "block": block, "parent": first[0]}}]
    joined = [{"store": {"tokens": three, "hashes": third, "block": block}},
              {"remove": {"hashes": [second[2]]}}, {"remove": {"hashes": [second[1]]}}]
    return [("batch", {"events": mixed},
             [store(first, one, block), {"kind": "remove", "tier": "g1", "hashes": [first[1]]},
              store(second, two, block, first[0])]),
            ("batch", {"events": joined},
             [store(third, three, block),
              {"kind": "remove", "tier": "g1", "hashes": [second[2], second[1]]}])]


def skipped(why, **more):
    return {"kind": "skip", "why": why, **more}


def engine(names, release, block=4, signed=False, relay="1.6"):
    """Everything an engine's own stream can say.  Steps are batches: (events, what a reader of the
    stream must understand, what Dynamo's relay of the stream must publish).

    `signed`: the engine's hashes are i64 on the wire; a reader takes their 64 bits.
    `relay`: the release of Dynamo that relays it, 1.6, 1.3 or 1.0.
    `release`: vllm-0.11, vllm-0.20, vllm-0.33, sglang-0.5.10 or sglang-0.5.23."""
    t, b = names.tokens, names.blocks
    vllm, steps = release.startswith("vllm"), []
    named = release in ("vllm-0.20", "vllm-0.33")  # has lora_name and extra_keys
    cpu = "CPU_PINNED" if not vllm else "CPU"
    disk = "STORAGE" if vllm else "DISK"

    def relayed_tier(medium):
        if relay == "1.0" or (relay == "1.3" and medium != "CPU"):
            return "g1"  # 1.0 knows no tiers, and to 1.3 every name it does not know is the device
        return TIERS.get(medium, "g1")

    def wire(found):
        return [value - (1 << 64) if signed and value >> 63 else value for value in found]

    def stored(found, tokens, parent=None, medium="GPU", lora=None, salt=None, media=None,
               inherited=None, **fields):
        told = {"tag": "BlockStored", "block_hashes": wire(found), "parent_block_hash": parent,
                "token_ids": tokens, "block_size": block, "lora_id": fields.pop("lora_id", None),
                "medium": medium}
        if named:
            told["lora_name"] = lora
        elif release == "sglang-0.5.23" and lora:
            told["lora_name"] = lora
        if salt and vllm:
            told["extra_keys"] = [[f"dynamo-cache-salt:{salt}"]] + [None] * (len(found) - 1)
        elif salt:
            told["cache_salt"] = salt
        if media:
            told["extra_keys"] = [[[f"{value:016x}" + "0" * 48, 1] for value in values] or None
                                  for values in media]
        told.update(fields)
        event = {"kind": "store", "tier": TIERS.get(medium, "g1"), "hashes": found, "tokens": tokens,
                 "block_tokens": block, "seed": hashes.seed(lora, salt)}
        if salt:
            event["salted"] = True
        if parent is not None:
            event["parent"] = parent
        if media:
            event["media"] = [sorted(values) for values in media]
        salt = (salt or inherited) if relay == "1.6" else None  # earlier ones know no salts
        relayed = store(found, tokens, block, parent, lora, salt, media, tier=relayed_tier(medium))
        if relay == "1.0" and media:
            relayed = None  # it cannot read extra keys that are pairs
        return told, event, relayed

    def removed(found, medium="GPU", **fields):
        event = {"kind": "remove", "tier": TIERS.get(medium, "g1"), "hashes": found}
        return ({"tag": "BlockRemoved", "block_hashes": wire(found), "medium": medium, **fields}, event,
                {**event, "tier": relayed_tier(medium)})

    def batch(*events):
        steps.append(([told for told, _, _ in events], [event for _, event, _ in events],
                      [relayed for _, _, relayed in events if relayed]))

    def dropped(event, why, relays=()):
        return event[0], skipped(why), event[2] if relay in relays else None

    root, child, tokens = b(3), b(2), t(3 * block)
    batch(stored(root, tokens))
    batch(stored(child, t(2 * block), root[-1], lora_id=7))
    batch(stored(root[:2], tokens[:2 * block], medium=cpu))
    batch(stored(b(1), t(block), root[-1], medium=disk))
    batch(stored(b(1), t(block), medium="EXTERNAL" if not vllm else None))
    batch(removed([child[1]]), removed(root[1:2], cpu))
    if named:
        batch(stored(b(2), t(2 * block), lora="adapter-a"))
        salted = b(2)
        batch(stored(salted, t(2 * block), salt="tenant-a"))
        # The salt stands with the first block of a sequence only; its children have it all the same.
        batch(stored(b(1), t(block), salted[-1], inherited="tenant-a"))
        batch(stored(b(3), t(3 * block), media=[[], [5], [(1 << 64) - 1, 3 << 40]]))
    if release == "sglang-0.5.23":
        batch(stored(b(2), t(2 * block), lora="adapter-a", salt="tenant-a"))
        batch(stored(b(1), t(block), session_id="session-1"))
    if release == "vllm-0.33":
        batch(stored(b(1), t(block), locality="LOCAL", session_id="session-1", group_idx=0,
                     kv_cache_spec_kind="full_attention"))
        batch(dropped(stored(b(1), t(block), locality="REMOTE"), "foreign_domain", ("1.0", "1.3")),
              dropped(stored(b(1), t(block), ownership="kvcr"), "foreign_domain",
                      ("1.0", "1.3")))
        windowed = b(2)
        batch(dropped(stored(windowed, t(2 * block), group_idx=1, kv_cache_spec_kind="sliding_window",
                             kv_cache_spec_sliding_window=128), "filtered_group", ("1.0",)))
        batch(dropped(removed(windowed, group_idx=1), "filtered_group", ("1.0",)))
        batch(stored(b(2), t(2 * block), lookahead_token_ids=[t(1), t(1)], lora_id=3))
    batch(dropped(stored(b(1), t(block), medium="gpu"), "unknown_tier", ("1.0", "1.3")))
    batch(removed(child[:1], medium="GPU"))
    batch(({"tag": "AllBlocksCleared"}, {"kind": "clear", "tier": "all"}, {"kind": "clear", "tier": "all"}))
    after = b(2)
    batch(stored(after, t(2 * block)))
    return steps


def engine_bytes(names, block=4):
    """vLLM with hashes that are 32 bytes: their last eight are what whole numbers would have been."""
    rng, t = names.rng, names.tokens
    long = [rng.getrandbits(256) for _ in range(4)]
    low = [value & hashes.MASK for value in long]
    tokens = t(3 * block), t(block)

    def text(value):
        return {"hex": f"{value:064x}"}

    def stored(values, parent, ids):
        return {"tag": "BlockStored", "block_hashes": [text(value) for value in values],
                "parent_block_hash": parent and text(parent), "token_ids": ids, "block_size": block,
                "lora_id": None, "medium": "GPU", "lora_name": None}

    rest = {"kind": "store", "tier": "g1", "block_tokens": block, "seed": hashes.BLOCK_SEED}
    return [([stored(long[:3], None, tokens[0])], [{**rest, "hashes": low[:3], "tokens": tokens[0]}], []),
            ([stored(long[3:], long[2], tokens[1])],
             [{**rest, "hashes": low[3:], "tokens": tokens[1], "parent": low[2]}], []),
            ([{"tag": "BlockRemoved", "block_hashes": [text(long[3])], "medium": "GPU"}],
             [{"kind": "remove", "tier": "g1", "hashes": low[3:]}], [])]


def load(rng, ranks, requests, block=16, prefixes=6, vocabulary=1000):
    """Requests of conversations that share prefixes: what makes a cache of few blocks evict."""
    shared = [[rng.randrange(3, vocabulary) for _ in range(block * rng.randrange(1, 6))]
              for _ in range(prefixes)]
    return [{"tokens": rng.choice(shared) + [rng.randrange(3, vocabulary) for _ in range(
        rng.randrange(1, 4 * block))], "output": rng.randrange(1, 2 * block),
             "rank": number % ranks} for number in range(requests)]


class Book:
    """What is held where, from events alone, under the producer's names and under Dynamo's chain."""

    def __init__(self):
        self.held = {}  # {(worker, rank, tier): {hash: tokens_hash}}
        self.chains = {}  # {(worker, rank): {hash: chain}}
        self.salted = {}  # {(worker, rank): {hash: seed}}

    def apply(self, event, worker=None):
        """One event in the words of index.json; `worker` where it says none."""
        place = event.get("worker", worker), event.get("dp_rank", 0)
        if event["kind"] == "clear":
            for key in list(self.held):
                if key[:2] == place:
                    del self.held[key]
        elif event["kind"] == "store":
            locals_ = self.locals_of(place, event)
            self.held.setdefault((*place, event["tier"]), {}).update(
                zip(event["hashes"], locals_, strict=True))
            chains = self.chains.setdefault(place, {})
            parent = chains[event["parent"]] if "parent" in event else None
            chains.update(zip(event["hashes"], hashes.chain(locals_, parent), strict=True))
        elif event["kind"] == "remove":
            for value in event["hashes"]:
                self.held.get((*place, event["tier"]), {}).pop(value, None)

    def note(self, event):
        """As apply(), of blocks whose names are Dynamo's chain already, parents known or not."""
        if event["kind"] != "store":
            self.apply(event)
            return
        place = event["worker"], event["dp_rank"]
        chains = self.chains.setdefault(place, {})
        self.held.setdefault((*place, event["tier"]), {}).update(
            zip(event["hashes"], event["tokens_hashes"], strict=True))
        parent = event.get("parent")
        for value, local in zip(event["hashes"], event["tokens_hashes"], strict=True):
            if hashes.chain([local], parent) != [value]:
                raise ValueError(f"{value:016x} behind {parent} is not its chain")
            chains[value] = parent = value

    def locals_of(self, place, event):
        if "tokens_hashes" in event:
            return event["tokens_hashes"]
        salted = self.salted.setdefault(place, {})
        seed = event["seed"] if event.get("salted") else salted.get(event.get("parent"), event["seed"])
        if seed != event["seed"] or event.get("salted"):
            salted.update((value, seed) for value in event["hashes"])
        return hashes.local(event["tokens"], event["block_tokens"], media=event.get("media"), seeded=seed)

    def rows(self):
        return {(*place, value): local for place, blocks in self.held.items()
                for value, local in blocks.items()}

    def places(self, rename=str):
        """As the advisor's index names them: (chain, holder, rank, tier); what is outside has no rank."""
        return {(f"{self.chains[worker, rank][value]:016x}", rename(worker), 0 if tier == "g4" else rank,
                 tier.upper())
                for (worker, rank, tier), blocks in self.held.items() for value in blocks}


def consolidated(steps, block=4):
    """What KVBM's consolidator makes of vLLM's batches: what is on the device, a block an event, of rank
    0; without salts, objects and groups, which it does not know.  One list for each batch it publishes."""
    found = []
    for batch, understood, _ in steps:
        events = []
        for told, event in zip(batch, understood, strict=True):
            if told["tag"] == "AllBlocksCleared":
                events.append({"kind": "clear", "tier": "all"})
            elif told["medium"] not in ("GPU", None) or event.get("why") == "foreign_domain":
                continue
            elif told["tag"] == "BlockRemoved":
                events += [{"kind": "remove", "tier": "g1", "hashes": [value]}
                           for value in told["block_hashes"]]
            else:
                parent = told["parent_block_hash"]
                for number, value in enumerate(told["block_hashes"]):
                    one = {"kind": "store", "tier": "g1", "hashes": [value], "block_tokens": block,
                           "tokens": told["token_ids"][number * block:(number + 1) * block],
                           "seed": hashes.seed(told.get("lora_name"))}
                    events.append(one if parent is None else {**one, "parent": parent})
                    parent = value
        if events:
            found.append(events)
    return found
