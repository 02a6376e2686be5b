//! From what was chosen to a function at collective level.

use super::super::graph::Graph;
use super::super::node::{Head, Node};
use super::frontier::{Act, Solution};
use super::space::Space;
use egg::Id;
use shardc_ir::graph::{Func, Value};
use shardc_ir::layout::Sharding;
use std::collections::BTreeMap;

/// The function that does what was chosen, under the names of `func`; `given` and `wanted` are the
/// classes of its parameters and of what it returns, `names` those of values of the model.
pub(super) fn emit(
    graph: &Graph,
    space: &Space,
    solution: &Solution,
    func: &Func,
    (given, wanted): (&[Id], &[Id]),
    names: &BTreeMap<Id, String>,
) -> Option<Func> {
    let out = Func::new(&func.name, func.kind);
    let mut emitter = Emitter { graph, names, out, made: BTreeMap::new() };
    for (&param, &class) in func.params.iter().zip(given) {
        let data = &func.values[param];
        let layout = graph.layout(class)?.clone();
        let sharding = Some(Sharding::decided(layout));
        let value = emitter.out.add_param(&data.name, data.ty.clone(), sharding);
        emitter.made.insert(graph.egraph.find(class), value);
    }
    for act in &solution.acts {
        match *act {
            Act::Move(value, at) => {
                let value = &space.values[value];
                let step = &value.moves[at];
                emitter.inst(&step.node, &[value.views[step.to].class])?;
            }
            Act::Run(step, choice) => {
                let choice = &space.steps[step].choices[choice];
                emitter.inst(&choice.node, &choice.results)?;
            }
        }
    }
    let returns: Option<Vec<Value>> = wanted.iter().map(|&c| emitter.get(c)).collect();
    emitter.out.returns = returns?;
    Some(emitter.out)
}

struct Emitter<'a> {
    graph: &'a Graph,
    names: &'a BTreeMap<Id, String>,
    out: Func,
    made: BTreeMap<Id, Value>,
}

impl Emitter<'_> {
    fn get(&self, class: Id) -> Option<Value> {
        self.made.get(&self.graph.egraph.find(class)).copied()
    }

    fn inst(&mut self, node: &Node, results: &[Id]) -> Option<()> {
        let Head::Local { op, outs } = node.head else { return None };
        let facts = self.graph.facts();
        let operator = facts.ops.get(op);
        let operands = node.args.iter().map(|&a| self.get(a)).collect::<Option<Vec<Value>>>()?;
        let exchange = super::super::exchange::is_exchange(&operator.op);
        let typed = results.iter().zip(facts.outs.get(outs)).map(|(&class, &(layout, ty))| {
            let name = self.graph.held(class).and_then(|h| self.names.get(&h.of));
            let name = name.map_or(operator.name, String::as_str);
            let name = match exchange {
                true => format!("{name}.{}", operator.name),
                false => name.to_string(),
            };
            let sharding = Sharding::decided(facts.layouts.get(layout).clone());
            (name, facts.types.get(ty).clone(), Some(sharding))
        });
        let typed = typed.collect();
        let inst = self.out.add_inst(operator.op.clone(), operands, typed);
        let made = self.out.insts[inst].results.clone();
        for (&class, value) in results.iter().zip(made) {
            self.made.entry(self.graph.egraph.find(class)).or_insert(value);
        }
        Some(())
    }
}
