//! Named groups of mesh axes: which devices split which kind of parallelism.

use super::degrees::Degrees;
use super::facts::Facts;
use shardc_ir::layout::{axes, gcd, primes};
use shardc_ir::mesh::{Axis, AxisId, AxisRef, Mesh};

/// The mesh of one pipeline stage and its groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    /// The mesh.
    pub mesh: Mesh,
    /// Group name and axes, major first, as pins name them.
    pub named: Vec<(&'static str, Vec<AxisRef>)>,
}

/// One prime factor of the mesh with the groups it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Atom {
    size: u64,
    attention: usize,
    expert: usize,
    across_nodes: bool,
}

impl Groups {
    /// The mesh and groups of `degrees` on nodes of `node_devices` devices.
    ///
    /// Attention takes axes from the minor end in the order tp, cp, dp, experts in the order etp,
    /// ep, edp, so that tensor parallelism stays inside a node. Both divide the same devices; where
    /// their bounds do not nest, an expert group takes the innermost free axes of its size.
    pub fn new(degrees: &Degrees, facts: &Facts, node_devices: u64) -> Self {
        let (kv, group) = split_heads(degrees.tp, facts);
        let attention = [group, kv, degrees.cp, degrees.dp];
        let expert = [degrees.etp, degrees.ep, degrees.edp().max(1)];
        let atoms = place(&attention, &expert, node_devices);
        let (mesh, members) = name_axes(&atoms);
        let of = |keep: &dyn Fn(&Atom) -> bool| {
            let list = members.iter().enumerate().filter(|(_, a)| keep(a));
            list.map(|(i, _)| AxisRef::whole(AxisId(i as u16))).collect::<Vec<_>>()
        };
        let named = vec![
            ("tp", of(&|a| a.attention <= 1)),
            ("tp_group", of(&|a| a.attention == 0)),
            ("tp_kv", of(&|a| a.attention == 1)),
            ("cp", of(&|a| a.attention == 2)),
            ("dp", of(&|a| a.attention == 3)),
            ("etp", of(&|a| a.expert == 0)),
            ("ep", of(&|a| a.expert == 1)),
            ("edp", of(&|a| a.expert == 2)),
        ];
        let mut groups = Groups { mesh, named };
        groups.derive();
        groups
    }

    /// Adds the groups that follow from the others.
    fn derive(&mut self) {
        let mesh = &self.mesh;
        let get = |name: &str| self.axes(name).to_vec();
        let (tp, cp, dp) = (get("tp"), get("cp"), get("dp"));
        let (ep, etp, edp) = (get("ep"), get("etp"), get("edp"));
        let owners = [ep.clone(), etp.clone()].concat();
        let tokens = [dp.clone(), axes::intersect(mesh, &edp, &tp)].concat();
        let tokens = axes::subtract(mesh, &tokens, &etp);
        let sequence = axes::subtract(mesh, &cp, &etp);
        let derived = [
            // Experts whose tokens every rank of the group holds anyway.
            ("ep_local", axes::intersect(mesh, &ep, &tp)),
            // Requests as they are routed, and as experts see them.
            ("moe_requests", tokens.clone()),
            ("moe_tokens", sequence.clone()),
            ("expert_requests", axes::subtract(mesh, &tokens, &owners)),
            ("expert_tokens", axes::subtract(mesh, &sequence, &owners)),
            // The residual stream between blocks with sequence parallelism.
            ("dp_tp", [dp.clone(), tp.clone()].concat()),
            ("cp_tp", [cp.clone(), tp].concat()),
        ];
        self.named.extend(derived);
    }

    /// The axes of a group; empty for an unknown name.
    pub fn axes(&self, name: &str) -> &[AxisRef] {
        self.named.iter().find(|(n, _)| *n == name).map_or(&[], |(_, a)| a)
    }
}

/// How `tp` splits into kv heads and heads of a group.
pub(super) fn split_heads(tp: u64, facts: &Facts) -> (u64, u64) {
    let kv = facts.heads.iter().fold(tp, |n, &(kv, _)| gcd(n, kv));
    (kv, tp / kv.max(1))
}

/// Atoms from the minor end.
fn place(attention: &[u64], expert: &[u64], node: u64) -> Vec<Atom> {
    let mut atoms: Vec<Atom> = Vec::new();
    let mut stride = 1;
    for (group, &size) in attention.iter().enumerate() {
        for p in primes(size) {
            let across_nodes = stride * p > node;
            atoms.push(Atom { size: p, attention: group, expert: usize::MAX, across_nodes });
            stride *= p;
        }
    }
    nest(&mut atoms, attention, expert);
    for (group, &size) in expert.iter().enumerate() {
        for p in primes(size) {
            let free = |a: &&mut Atom| a.expert == usize::MAX && a.size == p;
            if let Some(atom) = atoms.iter_mut().find(free) {
                atom.expert = group;
            }
        }
    }
    atoms
}

/// Orders the primes inside each attention group so that expert bounds fall between them.
fn nest(atoms: &mut [Atom], attention: &[u64], expert: &[u64]) {
    let mut wanted: Vec<u64> = expert.iter().flat_map(|&size| primes(size)).collect();
    let mut at = 0;
    for &size in attention {
        let count = primes(size).len();
        for i in at..at + count {
            let next =
                wanted.iter().position(|p| atoms[i..at + count].iter().any(|a| a.size == *p));
            let Some(next) = next else { continue };
            let p = wanted.remove(next);
            if let Some(j) = (i..at + count).find(|&j| atoms[j].size == p) {
                let size = atoms[i].size;
                atoms[i].size = p;
                atoms[j].size = size;
            }
        }
        at += count;
    }
}

/// Merges neighbouring atoms of the same groups and level into named axes, major first.
fn name_axes(atoms: &[Atom]) -> (Mesh, Vec<Atom>) {
    let mut merged: Vec<Atom> = Vec::new();
    for atom in atoms.iter().rev() {
        match merged.last_mut() {
            Some(last) if (Atom { size: last.size, ..*atom }) == *last => last.size *= atom.size,
            _ => merged.push(*atom),
        }
    }
    let count = |across: bool| merged.iter().filter(|a| a.across_nodes == across).count();
    let (inside, across) = (count(false), count(true));
    let mut numbers = [0, 0];
    let name = |atom: &Atom| {
        let (stem, many) = if atom.across_nodes { ("node", across) } else { ("gpu", inside) };
        let number = &mut numbers[usize::from(atom.across_nodes)];
        *number += 1;
        if many == 1 { stem.to_string() } else { format!("{stem}{}", *number - 1) }
    };
    let names: Vec<String> = merged.iter().map(name).collect();
    let axes = names.into_iter().zip(&merged).map(|(name, a)| Axis { name, size: a.size });
    (Mesh { name: "m".to_string(), axes: axes.collect() }, merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(degrees: &str, node: u64) -> String {
        let degrees = Degrees::parse(degrees).unwrap_or_default();
        let facts = Facts { heads: vec![(8, 4)], experts: vec![64], ..Facts::default() };
        let groups = Groups::new(&degrees, &facts, node);
        let list = |name: &str| {
            let axes: Vec<String> =
                groups.axes(name).iter().map(|a| groups.mesh.show(*a).to_string()).collect();
            format!("{name}={}", axes.join("·"))
        };
        format!("{} {} {} {} {}", groups.mesh, list("tp"), list("dp"), list("etp"), list("ep"))
    }

    #[test]
    fn experts_fold_over_attention() {
        assert_eq!(
            show("tp=4,dp=2,ep=8", 8),
            r#"mesh @m = <["gpu0"=2, "gpu1"=4]> tp="gpu1" dp="gpu0" etp= ep="gpu0"·"gpu1""#
        );
        assert_eq!(
            show("tp=8,dp=4,ep=32", 8),
            r#"mesh @m = <["node"=4, "gpu"=8]> tp="gpu" dp="node" etp= ep="node"·"gpu""#
        );
        assert_eq!(
            show("tp=2,dp=3,ep=2,etp=3", 8),
            r#"mesh @m = <["gpu0"=3, "gpu1"=2]> tp="gpu1" dp="gpu0" etp="gpu0" ep="gpu1""#
        );
    }
}
