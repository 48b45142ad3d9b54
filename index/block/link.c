#include "index/block/link.h"

#include "index/block/state.h"

static uint64_t
orphan_key(uint32_t ns, uint64_t mixed)
{
    return (mixed + ns) * UINT64_C(0x9e3779b97f4a7c15);
}

/* First block of the first orphan of this parent, or 0; the probe stands on its entry. */
static uint32_t
find_orphans(struct index *index, uint32_t ns, uint64_t parent, uint64_t mixed,
             struct index_hash_map_probe *probe)
{
    uint32_t number = index_hash_map_first(&index->orphans, orphan_key(ns, mixed), probe);

    while (number != INDEX_NONE) {
        uint32_t first;
        const struct index_run *run = index_state_run_of(index, number, &first);

        if (atomic_load_explicit(&run->parent, memory_order_relaxed) == parent &&
            index_run_ns(run) == ns)
            return number;
        number = index_hash_map_next(probe);
    }
    return 0;
}

uint32_t
index_link_orphans(struct index *index, uint32_t ns, uint64_t hash)
{
    struct index_hash_map_probe probe;

    if (index_state_namespace(index, ns)->orphans == 0)
        return 0;
    return find_orphans(index, ns, hash, index_state_mix(index, hash), &probe);
}

static struct index_run *
run_at(const struct index *index, uint32_t first)
{
    uint32_t offset;
    struct index_run *run = index_state_at(index, first, &offset);

    assert(offset == 0);
    return run;
}

/* A child stands right behind its parent; so nobody can be below himself, whatever hashes say. */
static bool
is_behind(const struct index *index, const struct index_run *run, uint32_t parent_number)
{
    uint32_t offset;
    const struct index_run *parent = index_state_at(index, parent_number, &offset);

    return atomic_load_explicit(&run->position, memory_order_relaxed) ==
           atomic_load_explicit(&parent->position, memory_order_relaxed) + offset + 1;
}

static bool
link_orphan(struct index *index, uint32_t first)
{
    struct index_run *run = run_at(index, first);
    const uint32_t ns = index_run_ns(run);
    const uint64_t parent = atomic_load_explicit(&run->parent, memory_order_relaxed);
    const uint64_t mixed = index_state_mix(index, parent);
    struct index_hash_map_probe probe;
    uint32_t head;

    if (index->orphan_count >= INDEX_ORPHANS_MAX ||
        !index_hash_map_reserve(&index->orphans, orphan_key(ns, mixed)))
        return false;
    head = find_orphans(index, ns, parent, mixed, &probe);
    if (head == 0) {
        index_hash_map_add(&index->orphans, orphan_key(ns, mixed), first);
    } else {
        index_hash_map_replace(&probe, first);
        run_at(index, head)->prev = first;
    }
    run->next = head;
    run->prev = 0;
    run->parent_number = 0;
    index_run_set(run, INDEX_RUN_ORPHAN, true);
    index->orphan_count++;
    index_state_namespace(index, ns)->orphans++;
    return true;
}

static void
cut_orphan(struct index *index, uint32_t first)
{
    struct index_run *run = run_at(index, first);
    const uint32_t ns = index_run_ns(run);
    const uint64_t parent = atomic_load_explicit(&run->parent, memory_order_relaxed);
    const uint64_t mixed = index_state_mix(index, parent);
    struct index_hash_map_probe probe;

    if (run->next != 0)
        run_at(index, run->next)->prev = run->prev;
    if (run->prev != 0) {
        run_at(index, run->prev)->next = run->next;
    } else {
        const uint32_t head = find_orphans(index, ns, parent, mixed, &probe);

        assert(head == first);
        if (run->next != 0)
            index_hash_map_replace(&probe, run->next);
        else
            index_hash_map_remove(&probe);
    }
    index_run_set(run, INDEX_RUN_ORPHAN, false);
    index->orphan_count--;
    index_state_namespace(index, ns)->orphans--;
}

static void
pin(struct index_run *parent, uint32_t offset)
{
    if (parent->pinned <= offset)
        parent->pinned = (uint16_t)(offset + 1);
}

static void
link_child(struct index *index, uint32_t first, uint32_t parent_number)
{
    struct index_run *run = run_at(index, first);
    uint32_t offset;
    struct index_run *parent = index_state_at(index, parent_number, &offset);

    run->parent_number = parent_number;
    run->prev = 0;
    run->next = parent->child;
    if (parent->child != 0)
        run_at(index, parent->child)->prev = first;
    parent->child = first;
    pin(parent, offset);
}

bool
index_link_run(struct index *index, uint32_t first, uint32_t parent)
{
    if (parent == 0 || !is_behind(index, run_at(index, first), parent))
        return link_orphan(index, first);
    link_child(index, first, parent);
    return true;
}

/* How far children pin the blocks of a run; not looked for among very many. */
static void
unpin(struct index *index, struct index_run *parent, uint32_t parent_first, uint32_t offset)
{
    enum { LOOK_AT = 256 };
    uint32_t looked = 0;
    uint32_t pinned = 0;

    if (parent->child != 0 && offset + 1 < parent->pinned)
        return;
    for (uint32_t at = parent->child; at != 0; at = run_at(index, at)->next) {
        const uint32_t end = run_at(index, at)->parent_number - parent_first + 1;

        if (end > pinned)
            pinned = end;
        if (pinned == parent->pinned || ++looked == LOOK_AT)
            return;
    }
    parent->pinned = (uint16_t)pinned;
}

uint32_t
index_link_cut(struct index *index, uint32_t first)
{
    struct index_run *run = run_at(index, first);
    const uint32_t parent_number = run->parent_number;

    if (index_run_is(run, INDEX_RUN_ORPHAN)) {
        cut_orphan(index, first);
    } else if (parent_number != 0) {
        uint32_t offset;
        struct index_run *parent = index_state_at(index, parent_number, &offset);

        if (run->next != 0)
            run_at(index, run->next)->prev = run->prev;
        if (run->prev != 0)
            run_at(index, run->prev)->next = run->next;
        else
            parent->child = run->next;
        unpin(index, parent, parent_number - offset, offset);
    }
    run->parent_number = run->next = run->prev = 0;
    return parent_number;
}

void
index_link_adopt(struct index *index, uint32_t ns, uint32_t number, uint64_t hash, uint64_t mixed)
{
    struct index_hash_map_probe probe;
    uint32_t at = find_orphans(index, ns, hash, mixed, &probe);

    while (at != 0) {
        struct index_run *run = run_at(index, at);
        const uint32_t next = run->next;

        if (is_behind(index, run, number)) {
            cut_orphan(index, at);
            link_child(index, at, number);
        }
        at = next;
    }
}
