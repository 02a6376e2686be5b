//! Tuples of degrees as genomes: what Megatron's layouts put every axis to.

use super::operators::Operators;
use super::{Layout, LayoutSpace};
use crate::search::outer::space::{Genome, Mark, choice, gene};
use crate::strategy::megatron::{self, ExpertExchange, Phase};
use crate::strategy::{Degrees, Groups, Pin};
use shardc_ir::mesh::AxisRef;

/// A tuple with the two decisions that a tuple leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tuple {
    pub degrees: Degrees,
    pub exchange: ExpertExchange,
    /// Whether the stream between blocks is split by tokens over the axes of tensor parallelism.
    pub sequence: bool,
}

/// All of them, plainest first.
pub(super) fn tuples(degrees: Vec<Degrees>) -> Vec<Tuple> {
    let mut out = Vec::new();
    for degrees in degrees {
        let routed = degrees.ep > 1;
        let exchanges = [ExpertExchange::AllToAll, ExpertExchange::AllGather];
        for &exchange in &exchanges[..if routed { 2 } else { 1 }] {
            for &sequence in &[false, true][..if degrees.tp > 1 { 2 } else { 1 }] {
                out.push(Tuple { degrees, exchange, sequence });
            }
        }
    }
    out
}

/// A tuple on the axes of a space.
struct Encoding<'s> {
    space: &'s LayoutSpace<'s>,
    tuple: Tuple,
    groups: Groups,
    pins: Vec<Pin>,
}

/// The genome of a tuple; `None` where its axes are none of the space's.
pub(super) fn encode(space: &LayoutSpace<'_>, tuple: Tuple) -> Option<Genome> {
    let node = space.evaluator.cluster.node.devices;
    let groups = Groups::new(&tuple.degrees, space.evaluator.facts(), node);
    let pins = megatron::pins(&groups, Phase::Prefill, tuple.exchange);
    Encoding { space, tuple, groups, pins }.genome()
}

impl Encoding<'_> {
    fn genome(&self) -> Option<Genome> {
        let Layout { stages, replicas, stream, sites, .. } = &self.space.layout;
        let stage = self.space.stages.iter().position(|s| s.0 == self.tuple.degrees.pp)?;
        let mut genome: Genome = vec![0; self.space.genes.len()];
        genome[*stages] = stage as u8;
        let dp = self.atoms(self.groups.axes("dp"))?;
        let cp = self.atoms(self.groups.axes("cp"))?;
        let tp = self.atoms(self.groups.axes("tp"))?;
        let inside = self.space.stages[stage].1;
        for atom in 0..self.space.atoms.len() {
            // Axes that the stages have taken would be replicas with fewer stages.
            let replica = dp.contains(&atom) || atom >= inside;
            genome[replicas + atom] = u8::from(replica);
            let mark = match () {
                () if replica => choice::REQUESTS,
                () if cp.contains(&atom) => choice::TOKENS,
                () if self.tuple.sequence && tp.contains(&atom) => choice::TOKENS,
                () => choice::IDLE,
            };
            self.set(&mut genome, stream + atom, mark);
        }
        for (site, &first) in sites.iter().enumerate() {
            for atom in 0..self.space.atoms.len() {
                let plain = match () {
                    () if dp.contains(&atom) => choice::REQUESTS,
                    () if cp.contains(&atom) => choice::TOKENS,
                    () => choice::IDLE,
                };
                let mark = self.site_mark(site, atom, plain)?;
                self.set(&mut genome, first + atom, mark);
            }
        }
        Some(genome)
    }

    fn set(&self, genome: &mut Genome, gene: usize, mark: Mark) {
        let choices = &self.space.genes[gene].choices;
        let alias = match mark {
            choice::TOKENS => choice::CACHED,
            choice::KV_HEADS => choice::GROUP,
            choice::GROUP => choice::KV_HEADS,
            other => other,
        };
        let find = |mark: Mark| choices.iter().position(|m| *m == mark);
        genome[gene] = find(mark).or_else(|| find(alias)).unwrap_or(0) as u8;
    }

    /// The axes of the space that a list of axes of the tuple's mesh is made of.
    fn atoms(&self, list: &[AxisRef]) -> Option<Vec<usize>> {
        let mesh = &self.groups.mesh;
        let mut out = Vec::new();
        for axis in list {
            let at = usize::from(axis.axis.0);
            let low: u64 = mesh.axes[at + 1..].iter().map(|a| a.size).product();
            let high = low * mesh.axes[at].size;
            let atoms = self.space.atoms.iter().enumerate();
            let mine = atoms.filter(|(_, a)| a.stride >= low && a.stride * a.size <= high);
            let mine: Vec<usize> = mine.map(|(i, _)| i).collect();
            let size: u64 = mine.iter().map(|&i| self.space.atoms[i].size).product();
            if size != mesh.axes[at].size {
                return None;
            }
            out.extend(mine);
        }
        Some(out)
    }

    /// What an axis is put to at a site: what pins of its values say, else `plain`.
    fn site_mark(&self, site: usize, atom: usize, plain: Mark) -> Option<Mark> {
        let space = self.space;
        if space.atoms[atom].stride >= self.tuple.degrees.stage_devices() {
            return Some(choice::REQUESTS);
        }
        if space.sites.all[site].mark == gene::ATTENTION {
            let group = self.atoms(self.groups.axes("tp_group"))?.contains(&atom);
            let heads = self.atoms(self.groups.axes("tp_kv"))?.contains(&atom);
            return Some(match () {
                () if heads => choice::KV_HEADS,
                () if group => choice::GROUP,
                () => plain,
            });
        }
        for (phase, functions) in space.phases.iter().enumerate() {
            for (ops, of) in functions.iter().zip(&space.sites.of[phase]) {
                for unit in (0..of.len()).filter(|&u| of[u] == Some(site)) {
                    if let Some(mark) = self.pinned(ops, unit, atom)? {
                        return Some(mark);
                    }
                }
            }
        }
        let open = space.sites.all[site].choices.contains(&plain);
        // What rows that pins name are not split by, they are not.
        let named = matches!(space.sites.all[site].mark, gene::DISPATCH | gene::EXPERTS);
        Some(if open && !named { plain } else { choice::IDLE })
    }

    /// What the pins of a group's values say that an axis is put to.
    fn pinned(&self, ops: &Operators<'_>, unit: usize, atom: usize) -> Option<Option<Mark>> {
        let here = &ops.units[unit];
        let combine =
            here.outputs.iter().any(|p| ops.func.values[p.value].name.ends_with("moe.out"));
        if combine {
            // Rows come back as they left.
            return Some(None);
        }
        for port in here.stored.iter().chain(&here.outputs).chain(&here.inner) {
            let name = &ops.func.values[port.value].name;
            let fits = |p: &&Pin| {
                p.layout.dims.len() == port.dims.len() && p.matches(&ops.func.name, name)
            };
            let Some(pin) = self.pins.iter().rev().find(fits) else { continue };
            for (dim, axes) in pin.layout.dims.iter().enumerate() {
                let Some(on) = port.dims[dim] else { continue };
                if self.atoms(axes)?.contains(&atom) {
                    return Some(Some(ops.mark(unit, Some(on))));
                }
            }
        }
        Some(None)
    }
}
