//! Classes of equal layers and the names of their functions.

use super::params::{self, Param};
use crate::spec::*;
use std::collections::{BTreeMap, BTreeSet};

/// Layers that compute the same on weights of the same formats.
#[derive(Clone, Debug)]
pub(super) struct Class<'a> {
    /// Name of the layer function.
    pub(super) name: String,
    /// The layer.
    pub(super) layer: &'a LayerSpec,
    /// Indices of the layers.
    pub(super) members: Vec<usize>,
    /// The weights of one of them.
    pub(super) params: Vec<Param>,
    /// How the weights are stored.
    pub(super) storage: BTreeMap<Role, Storage>,
}

impl<'a> Class<'a> {
    /// The classes of a model, in order of first use.
    pub(super) fn of_model(spec: &'a ModelSpec) -> Vec<Self> {
        let mut classes: Vec<Class> = Vec::new();
        for (index, layer) in spec.layers.iter().enumerate() {
            let weights = spec.layer_weights(index, layer);
            let storage = weights.iter().map(|w| (w.role, w.storage)).collect();
            let same = |c: &&mut Class| *c.layer == *layer && c.storage == storage;
            match classes.iter_mut().find(same) {
                Some(class) => class.members.push(index),
                None => classes.push(Class {
                    name: String::new(),
                    layer,
                    members: vec![index],
                    params: params::of_layer(spec, layer),
                    storage,
                }),
            }
        }
        name(&mut classes);
        classes
    }

    /// How a weight of this class is stored.
    pub(super) fn storage_of(&self, role: Role, dtype: DType) -> Storage {
        self.storage.get(&role).copied().unwrap_or(Storage::plain(dtype))
    }
}

/// Names every class by the fewest traits that tell as many classes apart as all traits do.
fn name(classes: &mut [Class]) {
    let traits: Vec<[&'static str; 3]> = classes.iter().map(|c| traits(c.layer)).collect();
    let words = |own: &[&'static str; 3], chosen: &[usize]| -> Vec<&'static str> {
        chosen.iter().map(|&i| own[i]).collect()
    };
    let told = |chosen: &[usize]| {
        traits.iter().map(|own| words(own, chosen)).collect::<BTreeSet<_>>().len()
    };
    let mut chosen: Vec<usize> = Vec::new();
    for i in 0..3 {
        let more = [chosen.as_slice(), &[i]].concat();
        if told(&more) > told(&chosen) {
            chosen = more;
        }
    }
    let mut used: BTreeMap<String, u64> = BTreeMap::new();
    for (class, own) in classes.iter_mut().zip(&traits) {
        let base = words(own, &chosen).join("_");
        let base = if base.is_empty() { "layer".to_string() } else { base };
        let count = used.entry(base.clone()).or_default();
        *count += 1;
        class.name = if *count == 1 { base } else { format!("{base}_{count}") };
    }
}

/// Mask, positions and feed-forward block of a layer, each in a word.
fn traits(layer: &LayerSpec) -> [&'static str; 3] {
    let (mask, rotates) = match &layer.attention {
        Attention::Gqa(a) => (a.mask, a.rope.is_some()),
        Attention::Mla(_) | Attention::None => (Mask::Causal, true),
    };
    let mask = match mask {
        _ if layer.attention == Attention::None => "unattended",
        Mask::Causal => "full",
        Mask::Window(_) => "sliding",
        Mask::Chunk(_) => "chunked",
    };
    let ffn = match layer.ffn {
        Ffn::Dense(_) => "dense",
        Ffn::Moe(_) => "moe",
        Ffn::None => "unfed",
    };
    [mask, if rotates { "rope" } else { "nope" }, ffn]
}
