//! Workloads that follow from a seed alone.  bench/corpus.c makes the same ones; the sum of every
//! chain's last sequence hash shows that they are.

use dynamo_kv_router::protocols::{LocalBlockHash, compute_next_seq_hash};

pub fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

pub fn local(seed: u64, stream: u64, position: u64) -> u64 {
    mix(mix(seed ^ stream).wrapping_add(position))
}

pub fn worker_id(worker: usize) -> u64 {
    mix(0x5745 + worker as u64) >> 11
}

pub fn shuffle(items: &mut [u32], seed: u64) {
    for i in (1..items.len()).rev() {
        items.swap(i, (mix(seed ^ i as u64) % (i as u64 + 1)) as usize);
    }
}

/// Sequence hashes of a chain that begins at position 0.
pub fn sequence(locals: &[u64], out: &mut Vec<u64>) {
    out.clear();
    for &hash in locals {
        let next = match out.last() {
            None => hash,
            Some(&parent) => compute_next_seq_hash(parent, LocalBlockHash(hash)),
        };
        out.push(next);
    }
}

const SHARED: u64 = 1 << 63;
const OWN: u64 = 1 << 62;

#[derive(Clone, Copy, PartialEq)]
pub enum Shape {
    Full,
    Cutoff,
    Branch,
}

impl Shape {
    pub fn parse(text: &str) -> Option<Shape> {
        match text {
            "full" => Some(Shape::Full),
            "cutoff" => Some(Shape::Cutoff),
            "branch" => Some(Shape::Branch),
            _ => None,
        }
    }
}

/// The blocks by which a holder goes on alone in shape `branch`.
const BRANCH: u64 = 16;

#[derive(Clone, Copy)]
pub enum Kind {
    /// Chains of one length, some of whose beginnings are common to a group of workers.
    Write {
        chain: usize,
        prefix: usize,
        per_worker: usize,
        shared: usize,
        fanout: usize,
    },
    /// `chains` sequences with `holders` each.
    Find {
        depth: usize,
        holders: usize,
        chains: usize,
        shape: Shape,
    },
}

#[derive(Clone)]
pub struct Corpus {
    pub seed: u64,
    pub workers: usize,
    /// Number of the first worker.
    pub first_worker: usize,
    /// One block an event, this many chains open at once; 0: a chain an event.
    pub open: usize,
    pub kind: Kind,
    /// Chain numbers in the order of arrival.
    pub order: Vec<u32>,
}

impl Corpus {
    pub fn write(load: &str, memberships: usize, seed: u64) -> Option<Corpus> {
        let (workers, chain, share, open) = match load {
            "A" => (256, 64, 0.5, 0),
            "B" => (256, 64, 0.0, 0),
            "C" => (256, 64, 0.5, 1024),
            "D" => (64, 1024, 0.5, 0),
            _ => return None,
        };
        Some(Corpus::write_of(
            workers,
            chain,
            share,
            open,
            memberships,
            seed,
        ))
    }

    pub fn write_of(
        workers: usize,
        chain: usize,
        share: f64,
        open: usize,
        memberships: usize,
        seed: u64,
    ) -> Corpus {
        let per_worker = (memberships / (workers * chain)).max(1);
        let kind = Kind::Write {
            chain,
            prefix: chain / 2,
            per_worker,
            shared: (per_worker as f64 * share).round() as usize,
            fanout: workers,
        };
        Corpus::ordered(kind, workers, open, per_worker * workers, seed)
    }

    pub fn find(
        depth: usize,
        holders: usize,
        shape: Shape,
        memberships: usize,
        seed: u64,
    ) -> Corpus {
        let chains = (memberships / (depth * holders)).clamp(4, 4096);
        let kind = Kind::Find {
            depth,
            holders,
            chains,
            shape,
        };
        Corpus::ordered(kind, holders, 0, chains * holders, seed)
    }

    fn ordered(kind: Kind, workers: usize, open: usize, count: usize, seed: u64) -> Corpus {
        let mut order: Vec<u32> = (0..count as u32).collect();
        shuffle(&mut order, seed);
        Corpus {
            seed,
            workers,
            first_worker: 0,
            open,
            kind,
            order,
        }
    }

    pub fn removal_order(&self) -> Vec<u32> {
        let mut order = self.order.clone();
        shuffle(&mut order, self.seed ^ 0xDEAD);
        order
    }

    pub fn worker(&self, chain: u32) -> usize {
        self.first_worker + chain as usize % self.workers
    }

    /// How deep holder `h` of sequence `k` goes along with it.
    pub fn depth(&self, k: usize, h: usize) -> u32 {
        let Kind::Find { depth, shape, .. } = self.kind else {
            return 0;
        };
        let draw = mix(self.seed ^ mix((k as u64) << 32 | h as u64));
        match shape {
            Shape::Full => depth as u32,
            Shape::Cutoff => 1 + (draw % depth as u64) as u32,
            Shape::Branch => (BRANCH * (1 + draw % (depth as u64 / BRANCH))) as u32,
        }
    }

    /// Local hashes of one chain.
    pub fn locals(&self, at: u32, out: &mut Vec<u64>) {
        out.clear();
        let at = at as usize;
        match self.kind {
            Kind::Write {
                chain,
                prefix,
                per_worker,
                shared,
                fanout,
            } => {
                let (j, w) = (at / self.workers, at % self.workers);
                let common = SHARED | ((w / fanout) * per_worker + j) as u64;
                for i in 0..chain {
                    let stream = if i < prefix && j < shared {
                        common
                    } else {
                        at as u64
                    };
                    out.push(local(self.seed, stream, i as u64));
                }
            }
            Kind::Find { holders, shape, .. } => {
                let (k, h) = (at / holders, at % holders);
                for i in 0..u64::from(self.depth(k, h)) {
                    out.push(local(self.seed, SHARED | k as u64, i));
                }
                if shape == Shape::Branch {
                    for i in 0..BRANCH {
                        out.push(local(self.seed, OWN | at as u64, i));
                    }
                }
            }
        }
    }

    /// The common sequence `k` of a find corpus.
    pub fn query(&self, k: usize, out: &mut Vec<u64>) {
        out.clear();
        if let Kind::Find { depth, .. } = self.kind {
            out.extend((0..depth as u64).map(|i| local(self.seed, SHARED | k as u64, i)));
        }
    }

    /// (memberships, sum of every chain's last sequence hash)
    pub fn checksum(&self) -> (usize, u64) {
        let (mut locals, mut hashes) = (Vec::new(), Vec::new());
        let (mut memberships, mut sum) = (0, 0u64);
        for at in 0..self.order.len() as u32 {
            self.locals(at, &mut locals);
            sequence(&locals, &mut hashes);
            memberships += hashes.len();
            sum = sum.wrapping_add(hashes[hashes.len() - 1]);
        }
        (memberships, sum)
    }
}
