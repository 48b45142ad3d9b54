//! Stores, removes and lookups from a file, in its order; every worker's score of each lookup.
//! bench/index/measure.h says what the lines are.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};

use dynamo_kv_router::protocols::{LocalBlockHash, RouterEvent};

use crate::subject::{Subject, remove_event, store_event};

fn numbers(words: &str) -> Option<Vec<u64>> {
    words
        .split_whitespace()
        .map(|word| u64::from_str_radix(word, 16).ok())
        .collect()
}

fn store_of(numbers: &[u64]) -> Option<RouterEvent> {
    let (&worker, &parent, &at) = (numbers.first()?, numbers.get(1)?, numbers.get(2)?);
    let pairs = &numbers[3..];
    let hashes: Vec<u64> = pairs.iter().copied().step_by(2).collect();
    let locals: Vec<u64> = pairs.iter().copied().skip(1).step_by(2).collect();
    let parent = (at > 0).then_some(parent);
    (!hashes.is_empty() && hashes.len() == locals.len())
        .then(|| store_event(worker, parent, at as usize, &hashes, &locals))
}

/// Returns how many lookups there were.
pub fn tell(subject: &mut Subject, path: &str, answers: &str) -> Result<usize, String> {
    let file = File::open(path).map_err(|error| format!("{path}: {error}"))?;
    let out = File::create(answers).map_err(|error| format!("{answers}: {error}"))?;
    let mut out = BufWriter::new(out);
    let mut events = Vec::new();
    let mut finds = 0;
    for line in BufReader::new(file).lines() {
        let line = line.map_err(|error| format!("{path}: {error}"))?;
        let wrong = || format!("no line of a story: {line}");
        let (kind, words) = line.split_once(' ').ok_or_else(wrong)?;
        let numbers = numbers(words).ok_or_else(wrong)?;
        match kind {
            "store" => events.push(store_of(&numbers).ok_or_else(wrong)?),
            "remove" if numbers.len() > 1 => events.push(remove_event(numbers[0], &numbers[1..])),
            "find" => {
                subject.apply(std::mem::take(&mut events));
                let query = numbers.into_iter().map(LocalBlockHash).collect();
                let mut scores: Vec<_> = subject.find(query).scores.into_iter().collect();
                scores.sort_by_key(|(worker, _)| worker.worker_id);
                for (worker, score) in scores {
                    write!(out, "{:x}={score} ", worker.worker_id)
                        .map_err(|error| format!("{answers}: {error}"))?;
                }
                writeln!(out).map_err(|error| format!("{answers}: {error}"))?;
                finds += 1;
            }
            _ => return Err(wrong()),
        }
    }
    subject.apply(events);
    out.flush().map_err(|error| format!("{answers}: {error}"))?;
    Ok(finds)
}
