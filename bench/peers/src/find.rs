//! Lookups: only the call is timed, not the copy of the query nor the end of the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dynamo_kv_router::indexer::WorkerTask;
use dynamo_kv_router::protocols::{LocalBlockHash, RouterEvent, WorkerWithDpRank};

use crate::corpus::{Corpus, Kind, mix, sequence, worker_id};
use crate::subject::{Subject, remove_event, store_event};

const CHECKED_CHAINS: usize = 8;

pub fn percentile(sorted: &[u64], share: f64) -> u64 {
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

fn locals_of(corpus: &Corpus, k: usize) -> Vec<LocalBlockHash> {
    let mut locals = Vec::new();
    corpus.query(k, &mut locals);
    locals.into_iter().map(LocalBlockHash).collect()
}

/// Time `count` queries, of which the first is number `first`; nanoseconds, sorted.
pub fn measure(
    subject: &Subject,
    corpus: &Corpus,
    first: u64,
    count: usize,
) -> Result<Vec<u64>, String> {
    let Kind::Find {
        chains, holders, ..
    } = corpus.kind
    else {
        return Err("no find corpus".to_string());
    };
    let queries: Vec<_> = (0..chains).map(|k| locals_of(corpus, k)).collect();
    let mut times = Vec::with_capacity(count);
    for q in first..first + count as u64 {
        let query = queries[(mix(corpus.seed ^ q) % chains as u64) as usize].clone();
        let start = Instant::now();
        let found = subject.find(query);
        times.push(start.elapsed().as_nanos() as u64);
        if found.scores.len() != holders {
            return Err(format!(
                "query {q}: {} holders, not {holders}",
                found.scores.len()
            ));
        }
    }
    times.sort_unstable();
    Ok(times)
}

/// Every holder's score on some chains, for the whole query, a half-right one and an unknown one.
pub fn check(subject: &Subject, corpus: &Corpus) -> Result<(), String> {
    let Kind::Find {
        chains,
        holders,
        depth,
        ..
    } = corpus.kind
    else {
        return Err("no find corpus".to_string());
    };
    for k in 0..chains.min(CHECKED_CHAINS) {
        for right in [depth, depth / 2, 0] {
            let mut query = locals_of(corpus, k);
            for hash in &mut query[right..] {
                hash.0 = !hash.0;
            }
            let scores = subject.find(query).scores;
            if scores.len() != if right == 0 { 0 } else { holders } {
                return Err(format!(
                    "chain {k}, {right} right: {} holders",
                    scores.len()
                ));
            }
            for h in 0..if right == 0 { 0 } else { holders } {
                let wanted = corpus.depth(k, h).min(right as u32);
                let found = scores.get(&WorkerWithDpRank::new(worker_id(h), 0)).copied();
                if found != Some(wanted) {
                    return Err(format!("chain {k}, holder {h}: {found:?}, not {wanted}"));
                }
            }
        }
    }
    Ok(())
}

/// Blocks a writer hands over at once.
const SLICE_BLOCKS: usize = 2048;

/// Chains of other workers that come and go while lookups run.
pub struct Churn {
    corpus: Corpus,
    chains: Vec<(u64, Vec<u64>, Vec<u64>)>,
}

impl Churn {
    pub fn new(seed: u64) -> Churn {
        let mut corpus = Corpus::write_of(64, 64, 0.5, 0, 64 * 4096, mix(seed ^ 0xC4));
        corpus.first_worker = 1 << 20;
        let (mut locals, mut hashes) = (Vec::new(), Vec::new());
        let chains = corpus.order.iter().map(|&at| {
            corpus.locals(at, &mut locals);
            sequence(&locals, &mut hashes);
            (worker_id(corpus.worker(at)), locals.clone(), hashes.clone())
        });
        let chains = chains.collect();
        Churn { corpus, chains }
    }

    /// One slice: the `number`th of an endless alternation of storing all and removing all.
    fn slice(&self, number: usize) -> Vec<RouterEvent> {
        let per_slice = SLICE_BLOCKS / self.chains[0].1.len();
        let slices = self.chains.len() / per_slice;
        let from = number % slices * per_slice;
        let store = (number / slices).is_multiple_of(2);
        let make = |(worker, locals, hashes): &(u64, Vec<u64>, Vec<u64>)| {
            if store {
                store_event(*worker, None, 0, hashes, locals)
            } else {
                remove_event(*worker, hashes)
            }
        };
        self.chains[from..from + per_slice]
            .iter()
            .map(make)
            .collect()
    }

    fn slices_a_round(&self) -> usize {
        2 * self.corpus.order.len() * self.chains[0].1.len() / SLICE_BLOCKS
    }

    /// Blocks a second of a writer that does nothing else.
    pub fn capacity(&self, subject: &mut Subject, rounds: usize) -> f64 {
        let (mut wall, mut blocks) = (0.0, 0);
        for number in 0..rounds * self.slices_a_round() {
            let events = self.slice(number);
            let start = Instant::now();
            subject.apply(events);
            wall += start.elapsed().as_secs_f64();
            blocks += SLICE_BLOCKS;
        }
        blocks as f64 / wall
    }
}

/// A writer at a given rate, until stopped.
pub struct Writer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<f64>,
}

impl Writer {
    /// Only CRTC can be written to while it is read.
    pub fn start(
        subject: &Subject,
        churn: Arc<Churn>,
        blocks_per_s: f64,
    ) -> Result<Writer, String> {
        let Subject::Crtc(crtc) = subject else {
            return Err("this index cannot be written to while it is read".to_string());
        };
        let tasks = crtc.tasks.clone();
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::spawn(move || {
            let pause = Duration::from_secs_f64(SLICE_BLOCKS as f64 / blocks_per_s);
            let start = Instant::now();
            let mut number = 0;
            // Whole rounds, so that nothing of it stays behind.
            while !told.load(Ordering::Relaxed) || number % churn.slices_a_round() != 0 {
                for event in churn.slice(number) {
                    tasks
                        .send(WorkerTask::Event(event))
                        .expect("the writer runs");
                }
                number += 1;
                let due = start + pause * number as u32;
                if let Some(wait) = due.checked_duration_since(Instant::now()) {
                    std::thread::sleep(wait);
                }
            }
            (number * SLICE_BLOCKS) as f64 / start.elapsed().as_secs_f64()
        });
        Ok(Writer { stop, thread })
    }

    /// Blocks a second it really wrote.
    pub fn stop(self, subject: &Subject) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        let rate = self.thread.join().expect("the feeder ends well");
        if let Subject::Crtc(crtc) = subject {
            crtc.ask(WorkerTask::Flush);
        }
        rate
    }
}
