//! Stores and removals: batches are built untimed, then handed over; the clock runs from the first
//! hand-over to the acknowledged flush.

use std::time::Instant;

use dynamo_kv_router::protocols::{LocalBlockHash, RouterEvent, WorkerWithDpRank};

use crate::corpus::{Corpus, Kind, sequence, worker_id};
use crate::subject::{Subject, remove_event, store_event};

pub const BATCH_BLOCKS: usize = 65536;
const CHECKED_CHAINS: usize = 500;

#[derive(Default)]
pub struct Took {
    pub blocks: usize,
    pub events: usize,
    pub wall_s: f64,
    pub cpu_s: f64,
}

struct Batch<'a> {
    subject: &'a mut Subject,
    events: Vec<RouterEvent>,
    blocks: usize,
    took: Took,
}

impl Batch<'_> {
    fn add(&mut self, event: RouterEvent, blocks: usize) {
        self.events.push(event);
        self.blocks += blocks;
        if self.blocks >= BATCH_BLOCKS {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        let events = std::mem::take(&mut self.events);
        self.took.events += events.len();
        self.took.blocks += self.blocks;
        self.blocks = 0;
        let cpu = self.subject.cpu_s();
        let start = Instant::now();
        self.subject.apply(events);
        self.took.wall_s += start.elapsed().as_secs_f64();
        self.took.cpu_s += self.subject.cpu_s() - cpu;
    }
}

pub fn apply(subject: &mut Subject, events: Vec<RouterEvent>, blocks: usize, took: &mut Took) {
    let mut batch = Batch {
        subject,
        events,
        blocks,
        took: std::mem::take(took),
    };
    batch.hand_over();
    *took = batch.took;
}

pub fn fill(subject: &mut Subject, corpus: &Corpus) -> Took {
    let mut batch = Batch {
        subject,
        events: Vec::new(),
        blocks: 0,
        took: Took::default(),
    };
    let (mut locals, mut hashes) = (Vec::new(), Vec::new());
    if corpus.open == 0 {
        for &at in &corpus.order {
            corpus.locals(at, &mut locals);
            sequence(&locals, &mut hashes);
            let event = store_event(worker_id(corpus.worker(at)), None, 0, &hashes, &locals);
            batch.add(event, hashes.len());
        }
    } else {
        for group in corpus.order.chunks(corpus.open) {
            let mut chains = Vec::new();
            for &at in group {
                corpus.locals(at, &mut locals);
                sequence(&locals, &mut hashes);
                chains.push((worker_id(corpus.worker(at)), locals.clone(), hashes.clone()));
            }
            for i in 0..chains[0].1.len() {
                for (worker, locals, hashes) in &chains {
                    let parent = (i > 0).then(|| hashes[i - 1]);
                    batch.add(
                        store_event(*worker, parent, i, &hashes[i..=i], &locals[i..=i]),
                        1,
                    );
                }
            }
        }
    }
    batch.hand_over();
    batch.took
}

pub fn remove(subject: &mut Subject, corpus: &Corpus) -> Took {
    let mut batch = Batch {
        subject,
        events: Vec::new(),
        blocks: 0,
        took: Took::default(),
    };
    let (mut locals, mut hashes) = (Vec::new(), Vec::new());
    for at in corpus.removal_order() {
        corpus.locals(at, &mut locals);
        sequence(&locals, &mut hashes);
        batch.add(
            remove_event(worker_id(corpus.worker(at)), &hashes),
            hashes.len(),
        );
    }
    batch.hand_over();
    batch.took
}

/// Look chains up and compare every holder's score with what the generator says.
pub fn check(subject: &Subject, corpus: &Corpus) -> Result<(), String> {
    let Kind::Write {
        chain,
        prefix,
        shared,
        fanout,
        ..
    } = corpus.kind
    else {
        return Err("no write corpus".to_string());
    };
    let step = (corpus.order.len() / CHECKED_CHAINS).max(1);
    let mut locals = Vec::new();
    for &at in corpus.order.iter().step_by(step).take(CHECKED_CHAINS) {
        corpus.locals(at, &mut locals);
        let scores = subject
            .find(locals.iter().map(|&hash| LocalBlockHash(hash)).collect())
            .scores;
        let (j, w) = (at as usize / corpus.workers, at as usize % corpus.workers);
        let group = w / fanout * fanout;
        let holders = if j < shared {
            group..(group + fanout).min(corpus.workers)
        } else {
            w..w + 1
        };
        if scores.len() != holders.len() {
            return Err(format!(
                "chain {at}: {} holders, not {}",
                scores.len(),
                holders.len()
            ));
        }
        for holder in holders {
            let id = worker_id(corpus.first_worker + holder);
            let wanted = if holder == w { chain } else { prefix } as u32;
            let found = scores.get(&WorkerWithDpRank::new(id, 0)).copied();
            if found != Some(wanted) {
                return Err(format!(
                    "chain {at}, holder {holder}: {found:?}, not {wanted}"
                ));
            }
        }
    }
    Ok(())
}
