//! What the steps of moves cost, each different one asked once.

use super::axes::{Lattice, State};
use super::block::Times;
use super::moves::{Bundle, Carried, Role};
use super::table::Point;
use crate::evaluate::{Comm, Pricing, Work, collective, price};
use shardc_cost::collective::Group;
use shardc_ir::dim::Bindings;
use shardc_ir::types::{Kind, Type};
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Prices of steps, each different one asked once.
pub(super) struct StepPrices<'a> {
    pricing: Pricing<'a>,
    /// Of each value, by step in which times differ.
    sizes: Vec<Vec<Sizes>>,
    /// Whether the first time is the second.
    same: bool,
    known: &'a KnownPrices,
}

/// Prices of collectives by name, group, and bytes of a device before and after.
pub(super) type KnownPrices =
    RefCell<HashMap<(&'static str, Group, u64, u64), f64, BuildHasherDefault<Mixed>>>;

/// A quick hash of a few numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, n: u64) {
        /// An odd number near 2⁶⁴ over the golden ratio.
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(ODD);
    }
}

/// What a value comes to on a device, by state: local bytes, and local types where it is routed.
struct Sizes {
    bytes: Vec<u64>,
    routed: Vec<Type>,
}

impl Sizes {
    fn new(carried: &Carried, lattice: &Lattice, bind: &Bindings) -> Self {
        let none = Bindings::default();
        let types: Vec<Type> =
            (0..lattice.len()).map(|s| carried.local(lattice, s, &[], bind)).collect();
        let bytes = types.iter().map(|t| t.bytes(&none)).collect();
        let travels = matches!(carried.ty.kind, Kind::Routed { .. });
        Sizes { bytes, routed: if travels { types } else { Vec::new() } }
    }
}

impl<'a> StepPrices<'a> {
    pub fn new(bundle: &Bundle, lattice: &Lattice, point: &'a Point<'_>) -> Self {
        let of = |carried: &Carried| {
            let binds = point.binds(&carried.ty.dims);
            binds.map(|bind| Sizes::new(carried, lattice, bind)).collect()
        };
        let sizes = bundle.values.iter().map(of).collect();
        let known = &point.known;
        StepPrices { pricing: point.pricing, sizes, same: point.same(), known }
    }

    /// Times of moving the axes of `group` from one role to another, all values one after another.
    pub fn step(
        &self,
        bundle: &Bundle,
        (from, to): (Option<usize>, Option<usize>),
        group: Group,
        (before, after): (State, State),
    ) -> Times {
        let mut total = [0.0; 2];
        for (i, carried) in bundle.values.iter().enumerate() {
            let Some(name) = kind_of_step(bundle, carried, from, to) else { continue };
            let to_experts = to.is_some() && carried.dims.first() == Some(&to);
            for (which, sum) in (0..self.sizes[i].len()).zip(&mut total) {
                let sizes = &self.sizes[i][which];
                *sum += if name == "all_to_all" && !sizes.routed.is_empty() {
                    let types = (&sizes.routed[before], &sizes.routed[after]);
                    travel(self.pricing, group, types, to_experts)
                } else {
                    let bytes = (sizes.bytes[before], sizes.bytes[after]);
                    self.known(name, group, bytes)
                };
            }
        }
        if self.same { [total[0]; 2] } else { total }
    }

    /// Times in which parts of the values that a step moves change places, before it or after, where
    /// they are smaller.
    pub fn turn(
        &self,
        bundle: &Bundle,
        (from, to): (Option<usize>, Option<usize>),
        (before, after): (State, State),
    ) -> Times {
        let fabric = self.pricing.fabric();
        let mut total = [0.0; 2];
        for (carried, sizes) in bundle.values.iter().zip(&self.sizes) {
            let split = |role: &Option<usize>| role.is_some() && carried.dims.contains(role);
            if split(&from) || split(&to) {
                for (sizes, sum) in sizes.iter().zip(&mut total) {
                    let bytes = sizes.bytes[before].min(sizes.bytes[after]);
                    *sum += fabric.send_recv(true, bytes).time.as_f64();
                }
            }
        }
        if self.same { [total[0]; 2] } else { total }
    }

    pub fn known(&self, name: &'static str, group: Group, bytes: (u64, u64)) -> f64 {
        let fabric = self.pricing.fabric();
        let key = (name, group, bytes.0, bytes.1);
        let known = self.known.borrow().get(&key).copied();
        known.unwrap_or_else(|| {
            let price = collective(name, group, bytes, &fabric).time.as_f64();
            self.known.borrow_mut().insert(key, price);
            price
        })
    }
}

/// Time of routed rows on their way to experts, or back.
fn travel(pricing: Pricing<'_>, group: Group, types: (&Type, &Type), to_experts: bool) -> f64 {
    let (pricer, fabric) = pricing.models();
    let comm = Comm {
        name: "all_to_all",
        group,
        before: types.0.clone(),
        after: types.1.clone(),
        routed: Some(to_experts),
        across_nodes: group.nodes > 1,
    };
    price(&Work::Communicate(comm), &pricer, &fabric, &Bindings::default()).time.as_f64()
}

/// The collective that a step is for one value; none where nothing is sent.
pub(super) fn kind_of_step(
    bundle: &Bundle,
    carried: &Carried,
    from: Option<usize>,
    to: Option<usize>,
) -> Option<&'static str> {
    let splits = |role: Option<usize>| role.is_some() && carried.dims.contains(&role);
    let pends = from.is_some_and(|f| bundle.roles[f] == Role::Pending);
    match (pends, splits(from), splits(to)) {
        (true, ..) if !carried.pends => None,
        (true, _, true) => Some("reduce_scatter"),
        (true, _, false) => Some("all_reduce"),
        (false, true, true) => Some("all_to_all"),
        (false, true, false) => Some("all_gather"),
        (false, false, _) => None,
    }
}
