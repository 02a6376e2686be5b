//! A pool at work: its replicas, the groups of them that step together, and its statistics.

use std::collections::VecDeque;

use super::replica::{Replica, Rules, Step};
use super::series::Gauge;
use super::{Histogram, Phase, Policy, Pool, PoolStats, Request, Router, StepRecord, Stuck, Work};
use crate::serving::StepTime;
use crate::time::Ns;

/// A step in flight: the parts of the group's replicas.
#[derive(Debug, Default)]
pub(super) struct Flight {
    steps: Vec<Step>,
}

/// Replicas that run their steps together.
#[derive(Debug, Default)]
pub(super) struct Group {
    flights: VecDeque<Flight>,
    /// When the first stage is free.
    pub next_launch: u64,
    /// When the latest step ends.
    last_finish: u64,
    /// The latest time at which a free first stage has been announced.
    pub announced: u64,
    /// Whether something happened to it at this moment.
    pub dirty: bool,
}

/// Requests that leave a pool at the end of a step.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// Served.
    pub done: u64,
    /// With their first token, for the decode pool: request and replica.
    pub handed_over: Vec<(u32, u32)>,
    buffer: Vec<u32>,
}

pub(super) struct PoolState<'a> {
    pool: Pool<'a>,
    pub rules: Rules<'a>,
    pub replicas: Vec<Replica>,
    pub groups: Vec<Group>,
    /// Replicas of a group.
    pub members: usize,
    /// Replica that round-robin takes next.
    turn: usize,
    /// When the link of each replica is free.
    pub link_free: Vec<u64>,
    gauges: Vec<Gauge>,
    pub total: Gauge,
    pub stats: PoolStats,
    spare: Vec<Flight>,
}

impl<'a> PoolState<'a> {
    pub fn new(pool: Pool<'a>, policy: &Policy, prefill_only: bool) -> Result<Self, Stuck> {
        let engine = &pool.engine;
        let replicas = u64::from(engine.replicas) * u64::from(pool.instances);
        let count = usize::try_from(replicas).ok().filter(|n| (1..1 << 31).contains(n));
        let count = count.ok_or(Stuck::Count)?;
        let members = if engine.lockstep { engine.replicas as usize } else { 1 };
        let groups = count / members;
        let stats = PoolStats {
            groups: groups as u64,
            replicas,
            kv_capacity: engine.kv.capacity(),
            ..PoolStats::default()
        };
        Ok(PoolState {
            rules: Rules::new(policy, engine.kv, u64::from(engine.stages), prefill_only),
            replicas: vec![Replica::default(); count],
            groups: (0..groups).map(|_| Group::default()).collect(),
            members,
            turn: 0,
            link_free: vec![0; count],
            gauges: vec![Gauge::default(); count],
            total: Gauge::default(),
            stats,
            pool,
            spare: Vec::new(),
        })
    }

    /// The replica that a request goes to.
    pub fn route(&mut self, router: Router) -> usize {
        let count = self.replicas.len();
        match router {
            Router::RoundRobin => {
                let turn = self.turn;
                self.turn = (turn + 1) % count;
                turn
            }
            Router::LeastLoaded => {
                (0..count).min_by_key(|&i| self.replicas[i].load()).unwrap_or_default()
            }
        }
    }

    /// The replicas of a group.
    pub fn members_of(&self, group: usize) -> std::ops::Range<usize> {
        group * self.members..(group + 1) * self.members
    }

    /// Whether a group's pipeline takes another step, now or later.
    pub fn has_stage(&self, group: usize) -> bool {
        (self.groups[group].flights.len() as u64) < self.rules.stages
    }

    /// Launches a step of a group at `now`; when it ends, or `None` if there is nothing to run.
    pub fn launch(
        &mut self,
        (number, group): (u32, usize),
        now: u64,
        requests: &mut [Request],
        observe: &mut dyn FnMut(&StepRecord),
    ) -> Result<Option<u64>, Stuck> {
        let mut flight = self.spare.pop().unwrap_or_default();
        flight.steps.resize_with(self.members, Step::default);
        let time = self.plan(group, requests, &mut flight)?;
        let Some(StepTime { latency, interval }) = time else {
            self.spare.push(flight);
            return Ok(None);
        };
        let latency = latency.get().max(1);
        let interval = interval.get().clamp(1, latency);
        let state = &mut self.groups[group];
        let queued = state.last_finish.checked_add(interval).ok_or(Stuck::Clock)?;
        let end = now.checked_add(latency).ok_or(Stuck::Clock)?.max(queued);
        (state.next_launch, state.last_finish) = (now + interval, end);
        self.stats.busy += u128::from(interval);
        for (i, step) in flight.steps.iter().enumerate() {
            self.record((number, group * self.members + i), (now, end), &step.work, observe);
        }
        self.groups[group].flights.push_back(flight);
        Ok(Some(end))
    }

    /// Plans the parts of a step; how long it takes, or `None` if all are empty.
    fn plan(
        &mut self,
        group: usize,
        requests: &mut [Request],
        flight: &mut Flight,
    ) -> Result<Option<StepTime>, Stuck> {
        for (i, step) in self.members_of(group).zip(&mut flight.steps) {
            self.replicas[i].plan(&self.rules, requests, step);
        }
        let tokens: u64 = flight.steps.iter().map(|step| step.work.shared).sum();
        let mut longest = None;
        for step in flight.steps.iter_mut().filter(|step| !step.work.is_empty()) {
            step.work.shared = tokens.div_ceil(self.members as u64);
            let time = self.pool.engine.steps.time(&step.work);
            if time.latency.is_infinite() || time.interval.is_infinite() {
                return Err(Stuck::EndlessStep(step.work));
            }
            let so_far = longest.unwrap_or(StepTime::single(Ns::ZERO));
            longest = Some(StepTime {
                latency: so_far.latency.max(time.latency),
                interval: so_far.interval.max(time.interval),
            });
        }
        Ok(longest)
    }

    /// Counts and shows one replica's part of a step.
    fn record(
        &mut self,
        (pool, replica): (u32, usize),
        (start, end): (u64, u64),
        work: &Work,
        observe: &mut dyn FnMut(&StepRecord),
    ) {
        let steps = match (work.chunks > 0, work.decodes > 0) {
            (true, true) => &mut self.stats.mixed_steps,
            (true, false) => &mut self.stats.prefill_steps,
            (false, true) => &mut self.stats.decode_steps,
            (false, false) => return,
        };
        *steps += 1;
        self.stats.prefill_tokens += work.tokens;
        self.stats.decode_tokens += work.decodes;
        let state = &self.replicas[replica];
        observe(&StepRecord {
            pool,
            replica: replica as u32,
            start,
            end,
            work: *work,
            waiting: state.queued(),
            running: state.running.len() as u64,
            kv_bytes: state.kv.bytes,
        });
    }

    /// Ends the oldest step of a group: its tokens, and the requests that leave.
    pub fn end_step(
        &mut self,
        group: usize,
        now: u64,
        requests: &mut [Request],
        gaps: &mut Histogram,
        leaving: &mut Leaving,
    ) {
        let Some(flight) = self.groups[group].flights.pop_front() else { return };
        for (i, step) in self.members_of(group).zip(&flight.steps) {
            let sinks = (&mut *gaps, &mut leaving.buffer);
            self.replicas[i].complete(&self.rules, requests, step, now, sinks);
            for id in leaving.buffer.drain(..) {
                match requests[id as usize].phase {
                    Phase::Transfer => leaving.handed_over.push((id, i as u32)),
                    _ => leaving.done += 1,
                }
            }
        }
        self.spare.push(flight);
    }

    /// Brings the gauges of a group's replicas up to date.
    pub fn gauge(&mut self, group: usize) {
        for i in self.members_of(group) {
            let (replica, old) = (&self.replicas[i], self.gauges[i]);
            let new = Gauge {
                running: replica.running.len() as u64,
                waiting: replica.queued(),
                kv_bytes: replica.kv.bytes,
            };
            self.total = self.total.replace(&old, &new);
            self.gauges[i] = new;
        }
        self.stats.peak_waiting = self.stats.peak_waiting.max(self.total.waiting);
    }

    /// The statistics at the end.
    pub fn finish(mut self) -> PoolStats {
        for replica in &self.replicas {
            self.stats.preemptions += replica.preemptions;
            self.stats.lost_tokens += replica.lost_tokens;
            self.stats.peak_bytes = self.stats.peak_bytes.max(replica.kv.peak_bytes);
            self.stats.peak_blocks = self.stats.peak_blocks.max(replica.kv.peak_blocks);
        }
        self.stats
    }
}
