//! The published indexes of `dynamo-kv-router` and its selector, measured: commands on standard input,
//! one JSON object a line on standard output.  bench/index/ and bench/route/ take the same commands for
//! ours; bench/README.md lists them.
//!
//! usage: kvtier-peers crtc|radix|select

mod corpus;
mod find;
mod replay;
mod select;
mod story;
mod subject;
mod write;

use std::io::Write;
use std::sync::Arc;

use corpus::{Corpus, Shape};
use find::{Churn, Writer, percentile};
use replay::Replay;
use select::Selection;
use subject::Subject;
use write::Took;

const CAPACITY_ROUNDS: usize = 3;

struct Session {
    name: String,
    subject: Subject,
    corpus: Option<Corpus>,
    memberships: usize,
    replay: Option<Replay>,
    churn: Option<Arc<Churn>>,
    capacity: f64,
    writer: Option<Writer>,
    rss_before: usize,
}

fn rss() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    // SAFETY: no memory is involved.
    pages.unwrap_or(0) * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize
}

fn number<T: std::str::FromStr>(words: &[&str], at: usize) -> Result<T, String> {
    words
        .get(at)
        .and_then(|word| word.parse().ok())
        .ok_or_else(|| format!("{}: argument {at} is missing or no number", words[0]))
}

fn times_json(times: &[u64]) -> String {
    let mean = times.iter().sum::<u64>() as f64 / times.len() as f64;
    format!(
        "\"queries\":{},\"p50_ns\":{},\"p99_ns\":{},\"mean_ns\":{mean:.1}",
        times.len(),
        percentile(times, 0.50),
        percentile(times, 0.99)
    )
}

impl Session {
    fn new(name: &str) -> Option<Session> {
        Some(Session {
            name: name.to_string(),
            subject: Subject::new(name)?,
            corpus: None,
            memberships: 0,
            replay: None,
            churn: None,
            capacity: 0.0,
            writer: None,
            rss_before: 0,
        })
    }

    fn corpus(&self) -> Result<&Corpus, String> {
        self.corpus
            .as_ref()
            .ok_or_else(|| "no corpus yet".to_string())
    }

    fn set_corpus(&mut self, corpus: Corpus) -> String {
        let (memberships, sum) = corpus.checksum();
        let chains = corpus.order.len();
        self.memberships = memberships;
        self.corpus = Some(corpus);
        self.rss_before = rss();
        format!("\"chains\":{chains},\"memberships\":{memberships},\"checksum\":\"{sum:016x}\"")
    }

    fn took_json(&self, took: &Took) -> String {
        format!(
            "\"blocks\":{},\"events\":{},\"wall_s\":{:.6},\"cpu_s\":{:.6},\"rate\":{:.0},\"memberships\":{},\"rss\":{}",
            took.blocks,
            took.events,
            took.wall_s,
            took.cpu_s,
            took.blocks as f64 / took.wall_s,
            self.subject.memberships(),
            rss().saturating_sub(self.rss_before)
        )
    }

    fn expect_memberships(&self, wanted: usize) -> Result<(), String> {
        let found = self.subject.memberships();
        if found == wanted {
            Ok(())
        } else {
            Err(format!("{found} memberships, not {wanted}"))
        }
    }

    fn fill(&mut self) -> Result<String, String> {
        let corpus = self.corpus.take().ok_or("no corpus yet")?;
        let took = write::fill(&mut self.subject, &corpus);
        let answer = self.took_json(&took);
        self.expect_memberships(self.memberships)?;
        match corpus.kind {
            corpus::Kind::Write { .. } => write::check(&self.subject, &corpus)?,
            corpus::Kind::Find { .. } => find::check(&self.subject, &corpus)?,
        }
        self.corpus = Some(corpus);
        Ok(answer)
    }

    fn remove(&mut self) -> Result<String, String> {
        let corpus = self.corpus.take().ok_or("no corpus yet")?;
        let took = write::remove(&mut self.subject, &corpus);
        self.corpus = Some(corpus);
        self.expect_memberships(0)?;
        let answer = self.took_json(&took);
        self.subject.sweep();
        Ok(answer)
    }

    fn replay_run(&mut self) -> Result<String, String> {
        let replay = self.replay.take().ok_or("no trace yet")?;
        let (took, times, asked) = replay.run(&mut self.subject)?;
        self.replay = Some(replay);
        self.expect_memberships(self.memberships)?;
        Ok(format!(
            "{},{},\"asked\":{asked}",
            self.took_json(&took),
            times_json(&times)
        ))
    }

    fn forget(&mut self) -> Result<String, String> {
        let replay = self.replay.take().ok_or("no trace yet")?;
        let took = replay.forget(&mut self.subject);
        self.replay = Some(replay);
        self.expect_memberships(0)?;
        let answer = self.took_json(&took);
        self.subject.sweep();
        Ok(answer)
    }

    fn writer(&mut self, percent: f64) -> Result<String, String> {
        let seed = self.corpus()?.seed;
        if let Some(writer) = self.writer.take() {
            let rate = writer.stop(&self.subject);
            return Ok(format!("\"rate\":{rate:.0}"));
        }
        let churn = self
            .churn
            .get_or_insert_with(|| Arc::new(Churn::new(seed)))
            .clone();
        if self.capacity == 0.0 {
            self.capacity = churn.capacity(&mut self.subject, CAPACITY_ROUNDS);
        }
        self.writer = Some(Writer::start(
            &self.subject,
            churn,
            self.capacity * percent / 100.0,
        )?);
        Ok(format!("\"capacity\":{:.0}", self.capacity))
    }

    fn command(&mut self, words: &[&str]) -> Result<String, String> {
        match words[0] {
            "load" => {
                let load = *words.get(1).ok_or("load: which one?")?;
                let corpus = Corpus::write(load, number(words, 2)?, number(words, 3)?);
                Ok(self.set_corpus(corpus.ok_or("load: A, B, C or D")?))
            }
            "points" => {
                let shape = words.get(3).and_then(|word| Shape::parse(word));
                let corpus = Corpus::find(
                    number(words, 1)?,
                    number(words, 2)?,
                    shape.ok_or("points: full, cutoff or branch")?,
                    number(words, 4)?,
                    number(words, 5)?,
                );
                Ok(self.set_corpus(corpus))
            }
            "trace" => {
                let path = words.get(5..).unwrap_or_default().join(" ");
                let replay = Replay::read(
                    &path,
                    number(words, 1)?,
                    number(words, 2)?,
                    number(words, 3)?,
                    number(words, 4)?,
                )?;
                let (memberships, sum) = replay.checksum();
                let chains = replay.requests.len();
                self.memberships = memberships;
                self.replay = Some(replay);
                self.rss_before = rss();
                Ok(format!(
                    "\"chains\":{chains},\"memberships\":{memberships},\"checksum\":\"{sum:016x}\""
                ))
            }
            "fill" => self.fill(),
            "remove" => self.remove(),
            "replay" => self.replay_run(),
            "forget" => self.forget(),
            "find" => {
                let times = find::measure(
                    &self.subject,
                    self.corpus()?,
                    number(words, 1)?,
                    number(words, 2)?,
                )?;
                Ok(times_json(&times))
            }
            "story" => {
                let paths = words.get(1).zip(words.get(2));
                let (path, answers) = paths.ok_or("story: from where, to where?")?;
                let finds = story::tell(&mut self.subject, path, answers)?;
                Ok(format!(
                    "\"finds\":{finds},\"memberships\":{}",
                    self.subject.memberships()
                ))
            }
            "writer" => self.writer(number(words, 1)?),
            "new" => {
                *self = Session::new(&self.name).ok_or("no such index")?;
                Ok("\"new\":true".to_string())
            }
            _ => Err(format!("no command {}", words[0])),
        }
    }
}

/// What is measured: one of the indexes, or the selector.
enum Side {
    Index(Box<Session>),
    Selector(Selection),
}

impl Side {
    fn new(name: &str) -> Option<Side> {
        if name == "select" {
            return Some(Side::Selector(Selection::default()));
        }
        Session::new(name).map(|session| Side::Index(Box::new(session)))
    }

    fn command(&mut self, words: &[&str]) -> Result<String, String> {
        match self {
            Side::Index(session) => session.command(words),
            Side::Selector(selection) => selection.command(words),
        }
    }
}

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some(mut side) = Side::new(&name) else {
        eprintln!("usage: kvtier-peers crtc|radix|select");
        std::process::exit(2);
    };
    for line in std::io::stdin().lines() {
        let line = line.unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        match side.command(&words) {
            Ok(answer) => println!("{{{answer}}}"),
            Err(error) => {
                eprintln!("kvtier-peers: {line}: {error}");
                std::process::exit(1);
            }
        }
        std::io::stdout()
            .flush()
            .expect("somebody reads the answers");
    }
}
