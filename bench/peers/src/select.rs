//! The crate's own choice of a worker, `DefaultWorkerSelector`: what it chooses for requests of a file,
//! and how long it takes.  bench/route/ takes the same commands for ours; bench/README.md lists them.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::time::Instant;

use dynamo_kv_router::protocols::{
    PrefillLoadHint, RoutingConstraints, WorkerConfigLike, WorkerWithDpRank,
};
use dynamo_kv_router::scheduling::{OverlapSignals, ScheduleMode};
use dynamo_kv_router::selector::DefaultWorkerSelector;
use dynamo_kv_router::test_utils::NoopSequencePublisher;
use dynamo_kv_router::{
    ActiveSequencesMultiWorker, KvRouterConfig, RouterConfigOverride, SchedulingRequest,
    SequenceRequest, SharedCacheHits, WorkerLoadProjection, WorkerSelectionInput, WorkerSelector,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::corpus::{mix, worker_id};
use crate::find::percentile;

pub struct Rank;

impl WorkerConfigLike for Rank {
    fn data_parallel_start_rank(&self) -> u32 {
        0
    }
    fn data_parallel_size(&self) -> u32 {
        1
    }
    fn max_num_batched_tokens(&self) -> Option<u64> {
        None
    }
    fn total_kv_blocks(&self) -> Option<u64> {
        None
    }
}

pub fn request(isl_tokens: usize) -> SchedulingRequest {
    SchedulingRequest {
        mode: ScheduleMode::QueryOnly { request_id: None },
        token_seq: None,
        isl_tokens,
        lora_name: None,
        expected_output_tokens: None,
        affinity_target: None,
        pinned_worker: None,
        allowed_worker_ids: None,
        routing_constraints: RoutingConstraints::default(),
        router_config_override: None,
        track_prefill_tokens: true,
        priority_jump: 0.0,
        strict_priority: 0,
        policy_class: None,
        session_context: None,
        overlap: OverlapSignals::default(),
        kv_transfer_candidates: None,
        retain_kv_transfer_chain: false,
        shared_cache_hits: None,
        worker_loads: Default::default(),
        resp_tx: None,
    }
}

/// Blocks of a request that a worker has, a tier each.
fn overlap(request: &mut SchedulingRequest, worker: u64, tiers: [usize; 3], block: usize) {
    let worker = WorkerWithDpRank::from_worker_id(worker);
    let maps = &mut request.overlap.tier_overlap_blocks;
    for (map, blocks) in [&mut maps.device, &mut maps.host_pinned, &mut maps.disk]
        .into_iter()
        .zip(tiers)
    {
        if blocks > 0 {
            map.insert(worker, blocks);
        }
    }
    let blocks: usize = tiers.iter().sum();
    if blocks > 0 {
        let overlap = &mut request.overlap;
        overlap
            .effective_overlap_blocks
            .insert(worker, blocks as f64);
        overlap
            .effective_cached_tokens
            .insert(worker, (blocks * block).min(request.isl_tokens));
    }
}

// ---- what it chooses ----

thread_local! {
    /// Bits of the cost the selector named last.
    static NAMED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The selector says what its choice costs in its log alone, as a number.
struct Costs;

struct Named;

impl Visit for Named {
    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
    fn record_f64(&mut self, field: &Field, value: f64) {
        if field.name() == "logit" {
            NAMED.set(Some(value.to_bits()));
        }
    }
}

impl Subscriber for Costs {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        event.record(&mut Named);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Words<'a>(std::str::SplitAsciiWhitespace<'a>);

impl Words<'_> {
    fn number(&mut self) -> Result<usize, String> {
        let word = self.0.next().ok_or("a line ends early")?;
        word.parse().map_err(|_| format!("{word} is no number"))
    }
    fn weight(&mut self) -> Result<f64, String> {
        let word = self.0.next().ok_or("a line ends early")?;
        word.parse().map_err(|_| format!("{word} is no weight"))
    }
}

struct Question {
    workers: HashMap<u64, Rank>,
    /// In the order of the file.
    ids: Vec<u64>,
    allowed: Vec<u64>,
    selector: DefaultWorkerSelector,
    request: SchedulingRequest,
    block: usize,
}

/// A line of the file: tests/scenario/choices.py says what it is made of.
fn question(line: &str) -> Result<Question, String> {
    let mut words = Words(line.split_ascii_whitespace());
    let (isl, block, shared) = (words.number()?, words.number()?, words.number()?);
    let (scale, device, host, disk) = (
        words.weight()?,
        words.weight()?,
        words.weight()?,
        words.weight()?,
    );
    let (cold, active) = (words.weight()?, words.weight()?);
    let overrides = words.number()? != 0;
    let count = words.number()?;
    let mut config = KvRouterConfig {
        host_cache_hit_weight: host,
        disk_cache_hit_weight: disk,
        decode_active_request_weight: active,
        router_temperature: 0.0,
        ..Default::default()
    };
    let mut request = request(isl);
    if overrides {
        request.router_config_override = Some(RouterConfigOverride {
            overlap_score_credit: Some(device),
            prefill_load_scale: Some(scale),
            shared_cache_multiplier: Some(cold),
            ..Default::default()
        });
    } else {
        config.overlap_score_credit = device;
        config.prefill_load_scale = scale;
        config.shared_cache_multiplier = Some(cold);
    }
    if shared > 0 {
        let all = std::iter::once(0..shared as u32).collect();
        request.shared_cache_hits = Some(SharedCacheHits::from_ranges(all));
    }
    let (mut workers, mut ids, mut allowed) = (HashMap::new(), Vec::new(), Vec::new());
    for _ in 0..count {
        let id = words.number()? as u64;
        if words.number()? != 0 {
            allowed.push(id);
        }
        let load = WorkerLoadProjection {
            active_prefill_tokens: words.number()?,
            active_decode_blocks: words.number()?,
            additional_active_blocks: words.number()?,
            active_requests: words.number()?,
        };
        overlap(
            &mut request,
            id,
            [words.number()?, words.number()?, words.number()?],
            block,
        );
        if load != WorkerLoadProjection::default() {
            request
                .worker_loads
                .insert(WorkerWithDpRank::from_worker_id(id), load);
        }
        workers.insert(id, Rank);
        ids.push(id);
    }
    Ok(Question {
        workers,
        ids,
        allowed,
        selector: DefaultWorkerSelector::new(Some(config), "prefill"),
        request,
        block,
    })
}

impl Question {
    /// The choice among these, and the bits of its cost.
    fn choose(&mut self, among: &[u64]) -> Result<(u64, u64), String> {
        self.request.allowed_worker_ids = if among.len() == self.ids.len() {
            None
        } else {
            Some(among.iter().copied().collect::<HashSet<u64>>())
        };
        NAMED.set(None);
        let chosen = self
            .selector
            .select_worker(WorkerSelectionInput::configured(
                &self.workers,
                &self.request,
                self.request.eligibility(),
                self.block as u32,
            ))
            .map_err(|error| error.to_string())?;
        let cost = NAMED.get().ok_or("the selector names no cost")?;
        Ok((chosen.worker.worker_id, cost))
    }
}

/// Of each request the worker chosen with its cost, then every worker's cost: that of a choice among it
/// alone.
pub fn choose(path: &str, answers: &str) -> Result<usize, String> {
    let file = File::open(path).map_err(|error| format!("{path}: {error}"))?;
    let out = File::create(answers).map_err(|error| format!("{answers}: {error}"))?;
    let mut out = BufWriter::new(out);
    let _guard = tracing::subscriber::set_default(Costs);
    let mut count = 0;
    for line in BufReader::new(file).lines() {
        let mut question = question(&line.map_err(|error| format!("{path}: {error}"))?)?;
        let allowed = question.allowed.clone();
        let (chosen, cost) = question.choose(&allowed)?;
        let mut answer = format!("{chosen} {cost:016x}");
        for worker in allowed {
            let (_, cost) = question.choose(&[worker])?;
            answer += &format!(" {worker}={cost:016x}");
        }
        writeln!(out, "{answer}").map_err(|error| format!("{answers}: {error}"))?;
        count += 1;
    }
    out.flush().map_err(|error| format!("{answers}: {error}"))?;
    Ok(count)
}

// ---- how long it takes ----

/// bench/route/ready.h makes the same.
pub const BLOCK: usize = 64;
pub const BLOCKS: usize = 125;
pub const ISL: usize = BLOCK * BLOCKS - 17;

/// Requests whose workers' caches and loads are known.
pub struct Ready {
    seed: u64,
    workers: HashMap<u64, Rank>,
    requests: Vec<SchedulingRequest>,
    numbers: HashMap<u64, usize>,
}

fn part(draw: u64, at: u64, bound: usize) -> usize {
    (mix(draw.wrapping_add(at)) % bound as u64) as usize
}

fn selector(temperature: f64) -> DefaultWorkerSelector {
    let config = KvRouterConfig {
        router_temperature: temperature,
        ..Default::default()
    };
    DefaultWorkerSelector::new(Some(config), "prefill")
}

impl Ready {
    /// Also the sum that shows that both sides were asked the same.
    pub fn new(count: usize, requests: usize, seed: u64) -> (Ready, u64) {
        let mut sum = 0u64;
        let mut ready = Ready {
            seed,
            workers: HashMap::with_capacity(count),
            requests: Vec::new(),
            numbers: HashMap::new(),
        };
        for w in 0..count {
            ready.workers.insert(worker_id(w), Rank);
            ready.numbers.insert(worker_id(w), w);
        }
        for q in 0..requests {
            let mut one = request(ISL);
            for w in 0..count {
                let draw = mix(seed ^ mix((q as u64) << 32 | w as u64));
                let part = |at, bound| part(draw, at, bound);
                let device = if part(1, 2) == 0 { part(2, 100) } else { 0 };
                let host = if part(3, 4) == 0 {
                    part(4, BLOCKS - device)
                } else {
                    0
                };
                let disk = if part(5, 8) == 0 {
                    part(6, BLOCKS - device - host)
                } else {
                    0
                };
                let load = WorkerLoadProjection {
                    active_prefill_tokens: part(7, 32768),
                    active_decode_blocks: part(8, 20000),
                    additional_active_blocks: part(9, BLOCKS),
                    active_requests: part(10, 64),
                };
                overlap(&mut one, worker_id(w), [device, host, disk], BLOCK);
                one.worker_loads
                    .insert(WorkerWithDpRank::from_worker_id(worker_id(w)), load);
                for blocks in [device, host, disk] {
                    sum = mix(sum ^ blocks as u64);
                }
                sum = sum_of(sum, &load);
            }
            one.token_seq = Some((0..BLOCKS).map(|i| hash(seed, q as u64, i)).collect());
            ready.requests.push(one);
        }
        (ready, sum)
    }

    fn time(
        &mut self,
        count: usize,
        temperature: f64,
        mut before: impl FnMut(&mut SchedulingRequest),
    ) -> Result<(Took, Vec<usize>), String> {
        let selector = selector(temperature);
        let mut chosen = Vec::new();
        let requests = self.requests.len();
        let took = Took::of(count, |at| {
            let request = &mut self.requests[at % requests];
            before(request);
            let found = selector
                .select_worker(WorkerSelectionInput::configured(
                    &self.workers,
                    request,
                    request.eligibility(),
                    BLOCK as u32,
                ))
                .map_err(|error| error.to_string())?;
            if at < requests {
                chosen.push(self.numbers[&found.worker.worker_id]);
            }
            Ok(())
        })?;
        Ok((took, chosen))
    }

    /// Times of `count` choices, and what was chosen for the first of each request.
    pub fn select(&mut self, count: usize, temperature: f64) -> Result<(Took, Vec<usize>), String> {
        self.time(count, temperature, |_| ())
    }
}

fn sum_of(sum: u64, load: &WorkerLoadProjection) -> u64 {
    [
        load.active_prefill_tokens,
        load.potential_decode_blocks(),
        load.active_requests,
    ]
    .into_iter()
    .fold(sum, |sum, value| mix(sum ^ value as u64))
}

const OWN: u64 = 1 << 48;

/// Blocks a turn of a conversation has, after each of which a request may go its own way.
const TURN: usize = 16;

/// Of a request's block: of the questions first, then of what runs.
fn hash(seed: u64, stream: u64, position: usize) -> u64 {
    mix(mix(seed ^ mix(stream)).wrapping_add(position as u64))
}

/// Requests that run on the workers, some with the beginning of one that is asked about.
pub struct Busy {
    slots: ActiveSequencesMultiWorker<NoopSequencePublisher>,
}

impl Busy {
    pub fn new(ready: &Ready, running: usize) -> Result<Busy, String> {
        let ranges = ready.workers.keys().map(|&id| (id, (0, 1))).collect();
        let slots = ActiveSequencesMultiWorker::new_without_expiry(
            NoopSequencePublisher,
            BLOCK,
            ranges,
            false,
            0,
            "prefill",
        );
        for w in 0..ready.workers.len() {
            for r in 0..running {
                let own = OWN | (w as u64) << 16 | r as u64;
                let draw = mix(ready.seed ^ mix(own));
                let blocks = 1 + part(draw, 1, 2 * BLOCKS);
                let shared = (TURN * part(draw, 3, 1 + BLOCKS / TURN)).min(blocks);
                let common = if part(draw, 2, 4) == 0 { shared } else { 0 };
                let question = part(draw, 4, ready.requests.len()) as u64;
                let stream = |i| if i < common { question } else { own };
                let id = format!("{w}-{r}");
                let now = tokio::time::Instant::now();
                slots
                    .add_request(
                        SequenceRequest {
                            request_id: id.clone(),
                            token_sequence: Some(
                                (0..blocks)
                                    .map(|i| hash(ready.seed, stream(i), i))
                                    .collect(),
                            ),
                            track_prefill_tokens: true,
                            expected_output_tokens: None,
                            prefill_load_hint: Some(PrefillLoadHint {
                                initial_effective_prefill_tokens: part(draw, 5, 16384),
                                expected_prefill_duration: None,
                            }),
                            worker: WorkerWithDpRank::from_worker_id(worker_id(w)),
                            lora_name: None,
                        },
                        now,
                    )
                    .map_err(|error| error.to_string())?;
                if part(draw, 6, 2) == 0 {
                    slots
                        .mark_prefill_completed(&id, now)
                        .map_err(|error| error.to_string())?;
                }
            }
        }
        Ok(Busy { slots })
    }

    fn project(&self, request: &mut SchedulingRequest) {
        self.slots.bench_project_worker_loads_into(
            request.token_seq.as_deref(),
            tokio::time::Instant::now(),
            &mut request.worker_loads,
        );
    }

    /// The sum of all that is projected, for each request.
    pub fn sum(&self, ready: &mut Ready) -> u64 {
        let mut sum = 0;
        for request in &mut ready.requests {
            let loads = request.worker_loads.clone();
            self.project(request);
            for w in 0..ready.workers.len() {
                let worker = WorkerWithDpRank::from_worker_id(worker_id(w));
                sum = sum_of(sum, &request.worker_loads[&worker]);
            }
            request.worker_loads = loads;
        }
        sum
    }

    /// Times of `count` choices, each with what the workers do now.
    pub fn decide(
        &self,
        ready: &mut Ready,
        count: usize,
        temperature: f64,
    ) -> Result<(Took, Vec<usize>), String> {
        ready.time(count, temperature, |request| self.project(request))
    }
}

pub struct Took {
    wall_s: f64,
    cpu_s: f64,
    times: Vec<u64>,
}

/// Time this thread was at work: what others do on the machine is not in it.
fn cpu_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the clock writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Took {
    pub fn of(
        count: usize,
        mut step: impl FnMut(usize) -> Result<(), String>,
    ) -> Result<Took, String> {
        let mut times = Vec::with_capacity(count);
        let (began, cpu) = (Instant::now(), cpu_ns());
        for at in 0..count {
            let start = cpu_ns();
            step(at)?;
            times.push(cpu_ns() - start);
        }
        let (wall_s, cpu_s) = (began.elapsed().as_secs_f64(), (cpu_ns() - cpu) as f64 / 1e9);
        times.sort_unstable();
        Ok(Took {
            wall_s,
            cpu_s,
            times,
        })
    }

    pub fn json(&self) -> String {
        format!(
            "\"decisions\":{},\"rate\":{:.1},\"cpu_rate\":{:.1},\"p50_ns\":{},\"p99_ns\":{}",
            self.times.len(),
            self.times.len() as f64 / self.wall_s,
            self.times.len() as f64 / self.cpu_s,
            percentile(&self.times, 0.50),
            percentile(&self.times, 0.99)
        )
    }
}

#[derive(Default)]
pub struct Selection {
    ready: Option<Ready>,
    busy: Option<Busy>,
}

impl Selection {
    pub fn command(&mut self, words: &[&str]) -> Result<String, String> {
        match words[0] {
            "choose" => {
                let paths = words.get(1).zip(words.get(2));
                let (path, answers) = paths.ok_or("choose: from where, to where?")?;
                Ok(format!("\"choices\":{}", choose(path, answers)?))
            }
            "ready" => {
                let (workers, requests) = (super::number(words, 1)?, super::number(words, 2)?);
                let (ready, sum) = Ready::new(workers, requests, super::number(words, 3)?);
                self.ready = Some(ready);
                Ok(format!("\"workers\":{workers},\"checksum\":\"{sum:016x}\""))
            }
            "busy" => {
                let ready = self.ready.as_mut().ok_or("nothing is ready")?;
                let busy = Busy::new(ready, super::number(words, 1)?)?;
                let sum = busy.sum(ready);
                self.busy = Some(busy);
                Ok(format!("\"checksum\":\"{sum:016x}\""))
            }
            "select" | "decide" => {
                let ready = self.ready.as_mut().ok_or("nothing is ready")?;
                let (count, temperature) = (super::number(words, 1)?, super::number(words, 2)?);
                let (took, chosen) = if words[0] == "select" {
                    ready.select(count, temperature)?
                } else {
                    let busy = self.busy.as_ref().ok_or("nobody is busy")?;
                    busy.decide(ready, count, temperature)?
                };
                Ok(format!("{},\"chosen\":{chosen:?}", took.json()))
            }
            _ => Err(format!("no command {}", words[0])),
        }
    }
}
