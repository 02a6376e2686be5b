//! The event loop: arrivals, ends of steps and transfers, in order of time.
//!
//! All events of one moment are applied first; then replicas that something happened to launch
//! what they can. So a schedule does not hang on the order of simultaneous events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::pool::{Leaving, PoolState};
use super::{
    Fleet, Histogram, Link, Outcome, Phase, Policy, Request, Router, StepRecord, Stuck, Workload,
};

/// Serves a workload; `observe` sees every step when it is launched.
///
/// # Errors
/// [`Stuck`] where a step takes forever or something cannot be counted.
pub fn run(
    workload: &Workload<'_>,
    fleet: &Fleet<'_>,
    policy: &Policy,
    observe: &mut dyn FnMut(&StepRecord),
) -> Result<Outcome, Stuck> {
    let mut simulation = Simulation::new(workload, fleet, policy)?;
    while simulation.moment(observe)? {}
    Ok(simulation.outcome())
}

/// What happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The oldest step in flight of a group ends.
    StepEnd { pool: u32, group: u32 },
    /// The first stage of a group is free again.
    StageFree { pool: u32, group: u32 },
    /// A request's cache has come from replica `from` of the prefill pool, where it holds `held`
    /// blocks, to replica `to` of the decode pool.
    TransferEnd { request: u32, from: u32, held: u64, to: u32 },
}

struct Simulation<'a> {
    now: u64,
    requests: Vec<Request>,
    /// Requests in order of arrival.
    order: Vec<u32>,
    /// How many of them have arrived.
    arrived: usize,
    /// Free places of a closed loop.
    places: Option<u64>,
    /// One, or prefill and decode.
    pools: Vec<PoolState<'a>>,
    link: Link,
    router: Router,
    queue: BinaryHeap<Reverse<(u64, u64, Event)>>,
    /// Events so far: the order of those at one time.
    sequence: u64,
    /// Pool and group of those that something happened to.
    dirty: Vec<(usize, usize)>,
    leaving: Leaving,
    gaps: Histogram,
    transfers: (u64, u64),
}

impl<'a> Simulation<'a> {
    fn new(workload: &Workload<'_>, fleet: &Fleet<'a>, policy: &Policy) -> Result<Self, Stuck> {
        let count = u32::try_from(workload.requests.len()).ok().filter(|n| *n < 1 << 31);
        let mut order: Vec<u32> = (0..count.ok_or(Stuck::Count)?).collect();
        if workload.concurrency.is_none() {
            order.sort_by_key(|&id| workload.requests[id as usize].at);
        }
        let (apart, link) = match fleet {
            Fleet::Together(_) => (false, Link { bytes_per_s: f64::INFINITY, latency: 0 }),
            Fleet::Apart { link, .. } => (true, *link),
        };
        let pools = fleet.pools().into_iter().enumerate();
        let pools = pools.map(|(i, pool)| PoolState::new(pool, policy, apart && i == 0));
        Ok(Simulation {
            now: 0,
            requests: workload.requests.iter().map(Request::new).collect(),
            order,
            arrived: 0,
            places: workload.concurrency.map(|n| n.max(1)),
            pools: pools.collect::<Result<_, _>>()?,
            link,
            router: policy.router,
            queue: BinaryHeap::new(),
            sequence: 0,
            dirty: Vec::new(),
            leaving: Leaving::default(),
            gaps: Histogram::default(),
            transfers: (0, 0),
        })
    }

    /// Goes to the next moment at which something happens, and lets it happen; whether there was
    /// one.
    fn moment(&mut self, observe: &mut dyn FnMut(&StepRecord)) -> Result<bool, Stuck> {
        let event = self.queue.peek().map(|Reverse((time, ..))| *time);
        let next = [event, self.next_arrival()].into_iter().flatten().min();
        let Some(time) = next else { return Ok(false) };
        for pool in &mut self.pools {
            pool.stats.series.add(self.now, time, &pool.total);
        }
        self.now = time;
        while let Some(Reverse((_, _, event))) = self.pop_due() {
            self.apply(event);
        }
        self.hand_over();
        while self.next_arrival() == Some(time) {
            self.arrive();
        }
        self.settle(observe)?;
        Ok(true)
    }

    /// When the next request arrives: in a closed loop at once, if there is a place.
    fn next_arrival(&self) -> Option<u64> {
        let id = *self.order.get(self.arrived)?;
        match self.places {
            None => Some(self.requests[id as usize].arrival),
            Some(0) => None,
            Some(_) => Some(self.now),
        }
    }

    fn pop_due(&mut self) -> Option<Reverse<(u64, u64, Event)>> {
        let due = self.queue.peek().is_some_and(|Reverse((time, ..))| *time <= self.now);
        if due { self.queue.pop() } else { None }
    }

    fn push(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.queue.push(Reverse((time, self.sequence, event)));
    }

    /// Notes that something happened to a replica.
    fn touch(&mut self, pool: usize, replica: usize) {
        let group = replica / self.pools[pool].members;
        if !std::mem::replace(&mut self.pools[pool].groups[group].dirty, true) {
            self.dirty.push((pool, group));
        }
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::StepEnd { pool, group } => {
                let (pool, group) = (pool as usize, group as usize);
                let (requests, leaving) = (&mut self.requests, &mut self.leaving);
                self.pools[pool].end_step(group, self.now, requests, &mut self.gaps, leaving);
                self.touch(pool, group * self.pools[pool].members);
            }
            Event::StageFree { pool, group } => {
                let first = group as usize * self.pools[pool as usize].members;
                self.touch(pool as usize, first);
            }
            Event::TransferEnd { request, from, held, to } => {
                let source = &mut self.pools[0];
                source.replicas[from as usize].kv.release(source.rules.kv, held);
                self.pools[1].replicas[to as usize].receive(request, &mut self.requests);
                self.touch(0, from as usize);
                self.touch(1, to as usize);
            }
        }
    }

    /// Frees the places of requests that are done, and finds decode replicas for those that have
    /// their first token.
    fn hand_over(&mut self) {
        let done = std::mem::take(&mut self.leaving.done);
        self.places = self.places.map(|places| places + done);
        for (request, from) in std::mem::take(&mut self.leaving.handed_over) {
            let to = self.pools[1].route(self.router);
            self.pools[1].replicas[to].incoming.push_back((request, from));
            self.touch(1, to);
        }
    }

    /// Lets the next request in, or turns it away where no replica ever holds it.
    fn arrive(&mut self) {
        let id = self.order[self.arrived];
        self.arrived += 1;
        let request = &mut self.requests[id as usize];
        if self.places.is_some() {
            request.arrival = self.now;
        }
        let (prompt, all) = (request.isl.into(), request.cached_at_end());
        let fits = match &self.pools[..] {
            [prefill, decode] => prefill.rules.kv.fits(prompt) && decode.rules.kv.fits(all),
            pools => pools.iter().all(|pool| pool.rules.kv.fits(all)),
        };
        if !fits {
            request.phase = Phase::Rejected;
            return;
        }
        self.places = self.places.map(|places| places.saturating_sub(1));
        let replica = self.pools[0].route(self.router);
        self.pools[0].replicas[replica].waiting.push_back(id);
        self.touch(0, replica);
    }

    /// Starts the transfers and launches the steps that this moment has made possible.
    fn settle(&mut self, observe: &mut dyn FnMut(&StepRecord)) -> Result<(), Stuck> {
        let mut at = 0;
        while let Some(&(pool, group)) = self.dirty.get(at) {
            at += 1;
            if pool == 1 {
                self.start_transfers(group)?;
            }
            self.launch(pool, group, observe)?;
            self.pools[pool].groups[group].dirty = false;
            self.pools[pool].gauge(group);
        }
        self.dirty.clear();
        Ok(())
    }

    /// Starts the transfers for which the replicas of a decode group have room.
    fn start_transfers(&mut self, group: usize) -> Result<(), Stuck> {
        for to in self.pools[1].members_of(group) {
            loop {
                let pool = &mut self.pools[1];
                let accepted = pool.replicas[to].accept(&pool.rules, &mut self.requests);
                let Some((request, from, held)) = accepted else { break };
                let bytes = self.pools[0].rules.kv.bytes(held);
                let free = &mut self.pools[0].link_free[from as usize];
                let sent = (bytes as f64 / self.link.bytes_per_s * 1e9).ceil() as u64;
                *free = (*free).max(self.now).checked_add(sent).ok_or(Stuck::Clock)?;
                let end = free.checked_add(self.link.latency).ok_or(Stuck::Clock)?;
                self.transfers.0 += 1;
                self.transfers.1 = self.transfers.1.saturating_add(bytes);
                self.push(end, Event::TransferEnd { request, from, held, to: to as u32 });
            }
        }
        Ok(())
    }

    /// Launches what a group can run now, and asks to be woken where its pipeline could take more.
    fn launch(
        &mut self,
        pool: usize,
        group: usize,
        observe: &mut dyn FnMut(&StepRecord),
    ) -> Result<(), Stuck> {
        let (now, number) = (self.now, pool as u32);
        while self.pools[pool].has_stage(group) {
            let state = &mut self.pools[pool];
            let next = state.groups[group].next_launch;
            if next > now {
                if state.groups[group].announced < next {
                    state.groups[group].announced = next;
                    self.push(next, Event::StageFree { pool: number, group: group as u32 });
                }
                break;
            }
            let launched = state.launch((number, group), now, &mut self.requests, observe)?;
            let Some(end) = launched else { break };
            self.push(end, Event::StepEnd { pool: number, group: group as u32 });
        }
        Ok(())
    }

    fn outcome(self) -> Outcome {
        Outcome {
            end: self.requests.iter().map(|r| r.last).max().unwrap_or(0),
            requests: self.requests,
            pools: self.pools.into_iter().map(PoolState::finish).collect(),
            gaps: self.gaps,
            transfers: self.transfers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Arrival, Engine, KvSizes, Pool, Work};
    use super::*;
    use crate::serving::StepTime;
    use crate::time::Ns;
    use proptest::prelude::*;

    /// A fleet whose requests of one token a block cost 1 us a token, 1 ms a step.
    fn with_simulation(
        lengths: &[(u32, u32)],
        capacity: u64,
        (apart, stages): (bool, u32),
        policy: &Policy,
        check: &mut dyn FnMut(&Simulation<'_>),
    ) -> Outcome {
        let kv = KvSizes::new(1, capacity, 1 << 12, |tokens| tokens);
        let steps = |work: &Work| {
            let interval = Ns::new(1_000_000 + 1000 * (work.tokens + work.decodes));
            StepTime { latency: interval * u64::from(stages), interval }
        };
        let engine = Engine { replicas: 1, lockstep: false, stages, kv: &kv, steps: &steps };
        let pool = Pool { engine, instances: 2 };
        let link = Link { bytes_per_s: 1e6, latency: 500 };
        let fleet = match apart {
            true => Fleet::Apart { prefill: pool, decode: Pool { instances: 1, ..pool }, link },
            false => Fleet::Together(pool),
        };
        let arrive = |(i, &(isl, osl)): (usize, &(u32, u32))| Arrival { at: i as u64, isl, osl };
        let requests: Vec<Arrival> = lengths.iter().enumerate().map(arrive).collect();
        let workload = Workload { requests: &requests, concurrency: None };
        let mut simulation = Simulation::new(&workload, &fleet, policy).unwrap();
        while simulation.moment(&mut |_| {}).unwrap() {
            check(&simulation);
        }
        simulation.outcome()
    }

    /// Blocks that replicas count, and blocks that requests and transfers hold.
    fn blocks(simulation: &Simulation<'_>) -> (u64, u64) {
        let replicas = simulation.pools.iter().flat_map(|pool| &pool.replicas);
        let counted = replicas.map(|replica| replica.kv.blocks).sum();
        let held: u64 = simulation.requests.iter().map(|r| u64::from(r.blocks)).sum();
        let leaving = simulation.queue.iter().map(|Reverse((_, _, event))| match event {
            Event::TransferEnd { held, .. } => *held,
            _ => 0,
        });
        (counted, held + leaving.sum::<u64>())
    }

    proptest! {
        #[test]
        fn every_block_has_an_owner(lengths in prop::collection::vec((1u32..40, 1u32..40), 1..30), capacity in 80u64..200, apart: bool, stages in 1u32..4, chunk in prop::option::of(1u64..50)) {
            let policy = Policy { chunk, ..Policy::default() };
            let mut wrong = None;
            let outcome = with_simulation(&lengths, capacity, (apart, stages), &policy, &mut |s| {
                let (counted, held) = blocks(s);
                let over = s.pools.iter().flat_map(|p| &p.replicas).any(|r| r.kv.bytes > capacity);
                if counted != held || over {
                    wrong = Some((s.now, counted, held));
                }
            });
            prop_assert_eq!(wrong, None);
            prop_assert!(outcome.requests.iter().all(Request::is_done));
        }
    }

    #[test]
    fn the_latest_request_gives_way() {
        // Two requests of 10 + 20 tokens on each of two replicas of 40 tokens.
        let policy = Policy { watermark: 0, ..Policy::default() };
        let outcome = with_simulation(&[(10, 20); 4], 40, (false, 1), &policy, &mut |_| {});
        let lost: Vec<u32> = outcome.requests.iter().map(|r| r.preemptions).collect();
        assert_eq!(lost, [0, 0, 1, 1]);
        let pool = &outcome.pools[0];
        assert_eq!((pool.preemptions, pool.lost_tokens, pool.peak_bytes), (2, 40, 40));
        // The prompt and the answer so far are computed anew.
        assert_eq!(pool.prefill_tokens, 4 * 10 + 2 * 21);
    }

    #[test]
    fn a_transfer_takes_its_bytes() {
        let lengths = [(1000, 2)];
        let outcome = with_simulation(&lengths, 2000, (true, 1), &Policy::default(), &mut |_| {});
        let request = &outcome.requests[0];
        assert_eq!(outcome.transfers, (1, 1000));
        // 1,000 bytes at 1 MB/s, the latency, one decode step.
        assert_eq!(request.last - request.first, 1_000_000 + 500 + 1_001_000);
    }
}
