//! Extents that shrink together: classes of dimensions that are tied to one another.

use crate::forest::Forest;
use crate::pieces::Piece;
use crate::ties::Ties;
use shardc_ir::graph::{FuncId, Module, Value};
use std::collections::{BTreeMap, BTreeSet};

/// What a class of tied dimensions allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// The extent; `None` where it is symbolic.
    pub size: Option<u64>,
    /// Whether an attribute depends on it, so that it stays.
    pub kept: bool,
    /// The reduced extent, where it numbers layers.
    pub layers: Option<u64>,
    /// The smallest extent that operators can work with.
    pub least: u64,
    /// Equal groups that it falls into.
    pub groups: Option<u64>,
    /// The classes that it is the sum of; none for most.
    pub pieces: Vec<Piece>,
}

impl Class {
    /// Adds what another dimension of the class allows.
    pub fn join(&mut self, other: &Class) {
        self.kept |= other.kept;
        self.layers = self.layers.or(other.layers);
        self.least = self.least.max(other.least);
        self.groups = self.groups.max(other.groups);
    }
}

/// The classes of all dimensions of several programs of one model.
#[derive(Debug)]
pub struct Classes {
    /// The first dimension of each value.
    first: BTreeMap<(usize, FuncId, Value), usize>,
    /// The class of each dimension.
    of: Vec<usize>,
    /// The classes.
    pub list: Vec<Class>,
}

impl Classes {
    /// The classes of `programs`, which share names and extents of parameters and keep a layer for
    /// each of `stages`.
    ///
    /// # Errors
    /// Says where layers do not fit together.
    pub fn of(programs: &[&Module], stages: usize) -> Result<Self, String> {
        let mut ties = Ties { programs, stages, forest: Forest::new(programs) };
        for (m, module) in programs.iter().enumerate() {
            for (id, func) in module.funcs.iter() {
                for &inst in &func.body {
                    ties.instruction(m, id, inst)?;
                }
            }
        }
        ties.names();
        let (first, of, mut list, pieces) = ties.forest.classes();
        measure(&first, &of, &mut list, programs);
        crate::pieces::settle(&mut list, pieces);
        Ok(Classes { first, of, list })
    }

    /// The class of a dimension.
    pub fn at(&self, program: usize, func: FuncId, value: Value, dim: usize) -> Option<usize> {
        Some(self.of[self.first.get(&(program, func, value))? + dim])
    }
}

/// Takes the extents from the programs; a class whose members differ stays as it is.
fn measure(
    first: &BTreeMap<(usize, FuncId, Value), usize>,
    of: &[usize],
    list: &mut [Class],
    programs: &[&Module],
) {
    let mut measured = BTreeSet::new();
    for (&(m, func, value), &first) in first {
        for (d, dim) in programs[m].funcs[func].ty(value).dims.iter().enumerate() {
            let number = of[first + d];
            let class = &mut list[number];
            if measured.insert(number) {
                class.size = dim.as_fixed();
            }
            class.kept |= class.size != dim.as_fixed();
        }
    }
}
