//! One face for both of the crate's exact indexes, driven as its own programs drive them.

use std::sync::Arc;
use std::thread::JoinHandle;

use dynamo_kv_router::indexer::WorkerTask;
use dynamo_kv_router::protocols::{
    ExternalSequenceBlockHash, KvCacheEvent, KvCacheEventData, KvCacheRemoveData, KvCacheStoreData,
    KvCacheStoredBlockData, LocalBlockHash, OverlapScores, RouterEvent,
};
use dynamo_kv_router::{ConcurrentRadixTreeCompressed, RadixTree, SyncIndexer};
use tokio::sync::oneshot;

pub fn store_event(
    worker: u64,
    parent: Option<u64>,
    at: usize,
    hashes: &[u64],
    locals: &[u64],
) -> RouterEvent {
    let blocks = hashes
        .iter()
        .zip(locals)
        .map(|(&hash, &local)| KvCacheStoredBlockData {
            block_hash: ExternalSequenceBlockHash(hash),
            tokens_hash: LocalBlockHash(local),
            mm_extra_info: None,
        })
        .collect();
    event(
        worker,
        KvCacheEventData::Stored(KvCacheStoreData {
            parent_hash: parent.map(ExternalSequenceBlockHash),
            start_position: Some(at as u32),
            blocks,
        }),
    )
}

/// `hashes` root side first; they go from the leaf.
pub fn remove_event(worker: u64, hashes: &[u64]) -> RouterEvent {
    let block_hashes = hashes
        .iter()
        .rev()
        .map(|&hash| ExternalSequenceBlockHash(hash))
        .collect();
    event(
        worker,
        KvCacheEventData::Removed(KvCacheRemoveData { block_hashes }),
    )
}

fn event(worker: u64, data: KvCacheEventData) -> RouterEvent {
    RouterEvent::new(
        worker,
        KvCacheEvent {
            event_id: 0,
            data,
            dp_rank: 0,
        },
    )
}

/// CRTC with its writer loop on a thread of its own.
pub struct Crtc {
    pub tree: Arc<ConcurrentRadixTreeCompressed>,
    pub tasks: flume::Sender<WorkerTask>,
    clock: libc::clockid_t,
    thread: Option<JoinHandle<()>>,
}

impl Crtc {
    fn new() -> Crtc {
        let tree = Arc::new(ConcurrentRadixTreeCompressed::new());
        let (tasks, receiver) = flume::unbounded();
        let (clock_to, clock_from) = std::sync::mpsc::channel();
        let theirs = tree.clone();
        let thread = std::thread::spawn(move || {
            let mut clock = 0;
            // SAFETY: asks for the clock of the calling thread.
            unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock) };
            clock_to.send(clock).expect("the creator waits");
            theirs
                .worker(receiver, None)
                .expect("the writer loop ends well");
        });
        let clock = clock_from.recv().expect("the writer started");
        Crtc {
            tree,
            tasks,
            clock,
            thread: Some(thread),
        }
    }

    pub fn send(&self, task: WorkerTask) {
        self.tasks.send(task).expect("the writer runs");
    }

    pub fn ask<T>(&self, task: impl FnOnce(oneshot::Sender<T>) -> WorkerTask) -> T {
        let (to, from) = oneshot::channel();
        self.send(task(to));
        from.blocking_recv().expect("the writer answers")
    }
}

impl Drop for Crtc {
    fn drop(&mut self) {
        self.send(WorkerTask::Terminate);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the writer ends well");
        }
    }
}

pub enum Subject {
    Crtc(Crtc),
    Radix(Box<RadixTree>),
}

impl Subject {
    pub fn new(name: &str) -> Option<Subject> {
        match name {
            "crtc" => Some(Subject::Crtc(Crtc::new())),
            "radix" => Some(Subject::Radix(Box::new(RadixTree::new()))),
            _ => None,
        }
    }

    /// Hand the events over; on return they are applied.
    pub fn apply(&mut self, events: Vec<RouterEvent>) {
        match self {
            Subject::Crtc(crtc) => {
                for event in events {
                    crtc.send(WorkerTask::Event(event));
                }
                crtc.ask(WorkerTask::Flush);
            }
            Subject::Radix(tree) => {
                for event in events {
                    // A refused event shows in the count of memberships.
                    let _ = tree.apply_event(event);
                }
            }
        }
    }

    pub fn memberships(&self) -> usize {
        match self {
            Subject::Crtc(crtc) => crtc.ask(WorkerTask::Stats).block_count(),
            Subject::Radix(tree) => tree.current_size(),
        }
    }

    /// What the crate does every five minutes.
    pub fn sweep(&self) {
        if let Subject::Crtc(crtc) = self {
            crtc.send(WorkerTask::CleanupStaleChildren);
            crtc.ask(WorkerTask::Flush);
        }
    }

    pub fn find(&self, query: Vec<LocalBlockHash>) -> OverlapScores {
        match self {
            Subject::Crtc(crtc) => crtc.tree.find_matches_impl(&query, false),
            Subject::Radix(tree) => tree.find_matches(query, false),
        }
    }

    /// CPU seconds of the thread that writes.
    pub fn cpu_s(&self) -> f64 {
        let clock = match self {
            Subject::Crtc(crtc) => crtc.clock,
            Subject::Radix(_) => libc::CLOCK_THREAD_CPUTIME_ID,
        };
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` outlives the call.
        unsafe { libc::clock_gettime(clock, &mut time) };
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    }
}
