//! A recorded trace: windows of requests, first all lookups, then all stores.

use std::time::Instant;

use dynamo_kv_router::protocols::LocalBlockHash;

use crate::corpus::{local, mix, sequence, worker_id};
use crate::subject::{Subject, remove_event, store_event};
use crate::write::{Took, apply};

const WINDOW: usize = 256;
const TRACE_STREAM: u64 = 1 << 61;

pub struct Request {
    /// Block ids after lengthening and copying.
    blocks: Vec<u32>,
    worker: usize,
    /// Sum of the prefix lengths all workers have when it asks.
    scores: u64,
    /// Leading blocks its worker has when it stores.
    has: usize,
}

pub struct Replay {
    pub requests: Vec<Request>,
    seed: u64,
}

fn ids_of(line: &str) -> Option<Vec<u32>> {
    let rest = &line[line.find("\"hash_ids\"")? + 10..];
    let list = &rest[rest.find('[')? + 1..rest.find(']')?];
    list.split(',').map(|id| id.trim().parse().ok()).collect()
}

impl Replay {
    pub fn read(
        path: &str,
        length: u32,
        copies: u32,
        workers: usize,
        seed: u64,
    ) -> Result<Replay, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        let mut lines = Vec::new();
        for (number, line) in text.lines().enumerate() {
            lines.push(ids_of(line).ok_or_else(|| format!("{path}:{}: no hash_ids", number + 1))?);
        }
        let ids = lines.iter().flatten().max().map_or(0, |id| id + 1);
        let span = ids * length;
        let mut requests = Vec::new();
        for line in &lines {
            for copy in 0..copies {
                let blocks = line
                    .iter()
                    .flat_map(|id| (0..length).map(move |i| copy * span + id * length + i))
                    .collect();
                let worker = (mix(requests.len() as u64) % workers as u64) as usize;
                requests.push(Request {
                    blocks,
                    worker,
                    scores: 0,
                    has: 0,
                });
            }
        }
        expect(&mut requests, (copies * span) as usize, workers)?;
        Ok(Replay { requests, seed })
    }

    fn locals(&self, request: &Request, out: &mut Vec<u64>) {
        out.clear();
        out.extend(
            request
                .blocks
                .iter()
                .map(|&id| local(self.seed, TRACE_STREAM | u64::from(id), 0)),
        );
    }

    /// (memberships, sum of every request's last sequence hash)
    pub fn checksum(&self) -> (usize, u64) {
        let (mut locals, mut hashes) = (Vec::new(), Vec::new());
        let (mut stored, mut sum) = (0, 0u64);
        for request in &self.requests {
            self.locals(request, &mut locals);
            sequence(&locals, &mut hashes);
            sum = sum.wrapping_add(hashes[hashes.len() - 1]);
            stored += hashes.len() - request.has;
        }
        (stored, sum)
    }

    /// What the stores took; nanoseconds of every lookup, sorted; blocks asked for.
    pub fn run(&self, subject: &mut Subject) -> Result<(Took, Vec<u64>, usize), String> {
        let (mut locals, mut hashes) = (Vec::new(), Vec::new());
        let (mut took, mut times, mut asked) = (Took::default(), Vec::new(), 0);
        for (number, window) in self.requests.chunks(WINDOW).enumerate() {
            for request in window {
                self.locals(request, &mut locals);
                asked += locals.len();
                let query = locals.iter().map(|&hash| LocalBlockHash(hash)).collect();
                let start = Instant::now();
                let found = subject.find(query);
                times.push(start.elapsed().as_nanos() as u64);
                let scores: u64 = found.scores.values().map(|&score| u64::from(score)).sum();
                if scores != request.scores {
                    return Err(format!(
                        "window {number}: scores {scores}, not {}",
                        request.scores
                    ));
                }
            }
            let (mut events, mut blocks) = (Vec::new(), 0);
            for request in window
                .iter()
                .filter(|request| request.has < request.blocks.len())
            {
                self.locals(request, &mut locals);
                sequence(&locals, &mut hashes);
                let has = request.has;
                let parent = (has > 0).then(|| hashes[has - 1]);
                let worker = worker_id(request.worker);
                events.push(store_event(
                    worker,
                    parent,
                    has,
                    &hashes[has..],
                    &locals[has..],
                ));
                blocks += hashes.len() - has;
            }
            apply(subject, events, blocks, &mut took);
        }
        times.sort_unstable();
        Ok((took, times, asked))
    }

    /// Remove all it stored, what came last first.
    pub fn forget(&self, subject: &mut Subject) -> Took {
        let (mut locals, mut hashes) = (Vec::new(), Vec::new());
        let mut took = Took::default();
        for window in self.requests.rchunks(WINDOW) {
            let (mut events, mut blocks) = (Vec::new(), 0);
            for request in window.iter().rev() {
                if request.has == request.blocks.len() {
                    continue;
                }
                self.locals(request, &mut locals);
                sequence(&locals, &mut hashes);
                events.push(remove_event(
                    worker_id(request.worker),
                    &hashes[request.has..],
                ));
                blocks += hashes.len() - request.has;
            }
            apply(subject, events, blocks, &mut took);
        }
        took
    }
}

/// An exact model of who has what: one bit a worker for each block.
fn expect(requests: &mut [Request], ids: usize, workers: usize) -> Result<(), String> {
    if workers > 64 {
        return Err("at most 64 workers".to_string());
    }
    let mut holders = vec![0u64; ids];
    for window in requests.chunks_mut(WINDOW) {
        for request in window.iter_mut() {
            let mut all = u64::MAX;
            for &id in &request.blocks {
                all &= holders[id as usize];
                request.scores += u64::from(all.count_ones());
            }
        }
        for request in window.iter_mut() {
            let bit = 1 << request.worker;
            let lacking = request
                .blocks
                .iter()
                .position(|&id| holders[id as usize] & bit == 0);
            request.has = lacking.unwrap_or(request.blocks.len());
            for &id in &request.blocks[request.has..] {
                holders[id as usize] |= bit;
            }
        }
    }
    Ok(())
}
