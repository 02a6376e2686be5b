//! From the text of a schedule to decisions: what surrounds the layouts. docs/schedule.md has the
//! keys.

use super::fault::{Checked, Fault};
use super::sections::Sections;
use super::site::Site;
use super::tree::{Key, Node, Tree};
use super::{Base, Batching, Decisions, Rule, Schedule};
use crate::codes;
use crate::pipeline::balanced_stages;
use crate::strategy::megatron::ExpertExchange;
use crate::strategy::{Degrees, Groups, Pin};
use shardc_ir::diag::{Code, Diagnostic, Span};
use shardc_ir::mesh::Mesh;
use shardc_ir::nearest::nearest;

/// Version of the schema.
pub const VERSION: u64 = 1;

/// Keys of a schedule, in the order in which they are written.
pub const KEYS: [&str; 14] = [
    "version",
    "degrees",
    "exchange",
    "mesh",
    "replicas",
    "stages",
    "batch",
    "micro_batches",
    "chunk",
    "pins",
    "stored",
    "both",
    "prefill",
    "decode",
];

/// Those of them that say how requests are batched; programs do not depend on them.
const BATCHING: [&str; 3] = ["batch", "micro_batches", "chunk"];

/// Most stages, requests and tokens that a schedule may name.
const MOST: u64 = 1 << 32;

/// A problem at a place of the text.
pub(super) fn fault(
    code: Code,
    message: String,
    span: Option<Span>,
    help: impl Into<String>,
) -> Box<Fault> {
    let problem = Diagnostic::error(code, message).help(help);
    match span {
        Some(span) => problem.at(span, "here").into(),
        None => problem.into(),
    }
}

/// A name that is not among those that there are.
pub(super) fn unknown(code: Code, message: String, key: &Key, known: &[&str]) -> Box<Fault> {
    let list = |names: &[&str]| {
        let shown = names.iter().take(24).copied().collect::<Vec<_>>().join(", ");
        if names.len() > 24 { format!("{shown} and {} more", names.len() - 24) } else { shown }
    };
    let help = match nearest(&key.name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "leave it out".to_string(),
        None => format!("there are {}", list(known)),
    };
    let legal = known.iter().map(|name| name.to_string()).collect();
    Box::new(Fault { legal, ..*fault(code, message, key.span, help) })
}

/// The rows of a table.
pub(super) fn rows<'a>(name: &str, node: &'a Node) -> Checked<&'a [(Key, Node)]> {
    match &node.tree {
        Tree::Table(rows) => Ok(rows),
        _ => Err(mistyped(name, node, "a table")),
    }
}

/// A text.
pub(super) fn text<'a>(name: &str, node: &'a Node) -> Checked<&'a str> {
    match &node.tree {
        Tree::Text(text) => Ok(text),
        _ => Err(mistyped(name, node, "a text")),
    }
}

pub(super) fn mistyped(name: &str, node: &Node, wanted: &str) -> Box<Fault> {
    let message = format!("`{name}` is {}, not {wanted}", node.tree.kind());
    fault(codes::SCHEDULE_KEY, message, node.span, format!("give {wanted}"))
}

fn whole(name: &str, node: &Node) -> Checked<u64> {
    match node.tree {
        Tree::Whole(n) if (1..=MOST).contains(&n) => Ok(n),
        Tree::Whole(n) => {
            let message = format!("`{name}` is {n}, not a whole number from 1 to {MOST}");
            Err(fault(codes::SCHEDULE_KEY, message, node.span, "give a number in that range"))
        }
        _ => Err(mistyped(name, node, "a whole number")),
    }
}

/// Devices of the plan that a schedule describes, where it says so.
pub fn devices(root: &Node) -> Option<u64> {
    if let Some(node) = root.get("degrees") {
        return degrees(node).ok().map(|d| d.devices());
    }
    let stages = match root.get("stages").map(|n| &n.tree) {
        Some(Tree::List(items)) => items.len() as u64,
        _ => 1,
    };
    let mesh = mesh(root.get("mesh")?).ok()?;
    Some(mesh.devices().saturating_mul(stages))
}

/// Reads the decisions of a schedule for a model on some devices.
///
/// # Errors
/// `S121` for keys, `S122` for names that do not exist, `S123` for decisions that are not legal,
/// `S106` and `S107` for pins and degrees; each at its place in the text.
pub fn read(site: &Site<'_>, root: &Node) -> Checked<Decisions> {
    let rows = rows("schedule", root)?;
    if let Some((key, _)) = rows.iter().find(|(key, _)| !KEYS.contains(&key.name.as_str())) {
        let message = format!("a schedule has no key `{}`", key.name);
        return Err(unknown(codes::SCHEDULE_KEY, message, key, &KEYS));
    }
    if let Some(node) = root.get("version") {
        let found = whole("version", node)?;
        if found != VERSION {
            let message = format!("schedules of version {found} are not read");
            let help = format!("this is version {VERSION}");
            return Err(fault(codes::SCHEDULE_KEY, message, node.span, help));
        }
    }
    let (base, groups) = base(site, root)?;
    let stages = stages(site, root, &base)?;
    let batching = batching(root)?;
    let mut sections = Sections::new(site, &groups);
    for name in ["stored", "both", "prefill", "decode"] {
        if let Some(node) = root.get(name) {
            sections.read(name, node)?;
        }
    }
    let (stored, stated) = sections.finish();
    Ok(Decisions { stages, batching, base, stored, stated })
}

/// How a schedule batches requests.
///
/// # Errors
/// `S121` for what is no whole number.
pub fn batching(root: &Node) -> Checked<Batching> {
    let one = |name: &str| root.get(name).map(|node| whole(name, node)).transpose();
    let [batch, micro_batches, chunk] = BATCHING.map(one);
    Ok(Batching { batch: batch?, micro_batches: micro_batches?, chunk: chunk? })
}

/// A schedule without how it batches requests: what its programs depend on.
pub fn without_batching(root: &Node) -> Node {
    let Tree::Table(rows) = &root.tree else { return root.clone() };
    let kept = rows.iter().filter(|(key, _)| !BATCHING.contains(&key.name.as_str()));
    Node { tree: Tree::Table(kept.cloned().collect()), ..root.clone() }
}

fn base(site: &Site<'_>, root: &Node) -> Checked<(Base, Groups)> {
    let only = |name: &str, with: &str| match root.get(name) {
        Some(node) => {
            let message = format!("`{name}` goes with `{with}` only");
            Err(fault(codes::SCHEDULE_KEY, message, node.span, format!("leave `{name}` out")))
        }
        None => Ok(()),
    };
    match (root.get("degrees"), root.get("mesh")) {
        (Some(node), None) => {
            only("replicas", "mesh")?;
            by_degrees(site, root, node)
        }
        (None, Some(node)) => {
            only("exchange", "degrees")?;
            only("pins", "degrees")?;
            on_mesh(site, root, node)
        }
        (Some(_), Some(node)) => {
            let message = "`degrees` and `mesh` both say how devices are arranged".to_string();
            Err(fault(codes::SCHEDULE_KEY, message, node.span, "keep one of them"))
        }
        (None, None) => {
            let message = "a schedule has neither `degrees` nor `mesh`".to_string();
            let help = "give `degrees = \"tp=8\"` for Megatron's layouts, or `mesh = \"gpu=8\"` for \
                        layouts operator by operator";
            Err(fault(codes::SCHEDULE_KEY, message, None, help))
        }
    }
}

fn by_degrees(site: &Site<'_>, root: &Node, node: &Node) -> Checked<(Base, Groups)> {
    let degrees = degrees(node)?;
    let (node_devices, devices) = site.devices;
    degrees
        .check(site.facts, devices, node_devices)
        .map_err(|problem| placed(*problem, node.span))?;
    let groups = site.groups(&degrees);
    let exchange = match root.get("exchange") {
        None => ExpertExchange::AllToAll,
        Some(node) => exchange(node)?,
    };
    let mut pins = Vec::new();
    if let Some(node) = root.get("pins") {
        for (key, node) in rows("pins", node)? {
            let layout = text(&key.name, node)?;
            let pin = Pin::read(&key.name, layout, &groups).map_err(|cause| {
                let message = format!("a pin cannot be read: {cause}");
                let help = "write `\"pattern\" = \"layout\"`, such as \
                            `\"*/attn.o\" = \"[{dp}, {}, {tp}]\"`";
                fault(codes::BAD_PIN, message, node.span, help)
            })?;
            let span = node.span.or(Some(Span::default()));
            pins.push(Pin { span, ..pin });
        }
    }
    Ok((Base::Rule(Rule { degrees, exchange, pins }), groups))
}

/// A diagnostic with a place, where it has none.
fn placed(mut problem: Diagnostic, span: Option<Span>) -> Box<Fault> {
    if let (Some(span), None) = (span, &problem.primary) {
        problem = problem.at(span, "here");
    }
    problem.into()
}

/// `"tp=4,dp=2"`, or a table of the same names.
fn degrees(node: &Node) -> Checked<Degrees> {
    let flag = match &node.tree {
        Tree::Text(text) => text.clone(),
        Tree::Table(rows) => {
            let one = |(key, node): &(Key, Node)| {
                Ok::<_, Box<Fault>>(format!("{}={}", key.name, whole(&key.name, node)?))
            };
            rows.iter().map(one).collect::<Checked<Vec<_>>>()?.join(",")
        }
        _ => return Err(mistyped("degrees", node, "a text such as \"tp=4,dp=2\"")),
    };
    Degrees::parse(&flag).map_err(|problem| placed(*problem, node.span))
}

fn exchange(node: &Node) -> Checked<ExpertExchange> {
    let name = text("exchange", node)?;
    let found = ExpertExchange::ALL.into_iter().find(|e| e.name() == name);
    found.ok_or_else(|| {
        let known = ExpertExchange::ALL.map(ExpertExchange::name);
        let key = Key { name: name.to_string(), span: node.span };
        let message = format!("`exchange` cannot be `{name}`");
        unknown(codes::SCHEDULE_KEY, message, &key, &known)
    })
}

/// `"node=2,gpu=8"`: axes, major first.
fn mesh(node: &Node) -> Checked<Mesh> {
    let written = text("mesh", node)?;
    let bad = |message: String| {
        let help = "write axes major first, such as \"node=2,gpu=8\"";
        fault(codes::SCHEDULE_KEY, message, node.span, help)
    };
    let mut axes: Vec<(&str, u64)> = Vec::new();
    for part in written.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let (name, size) =
            part.split_once('=').ok_or_else(|| bad(format!("`{part}` is not `axis=size`")))?;
        let size = size.trim().parse().ok().filter(|n| (1..=1 << 20).contains(n));
        let size = size.ok_or_else(|| bad(format!("`{part}` has no size from 1 to 1048576")))?;
        axes.push((name.trim(), size));
    }
    if axes.is_empty() {
        return Err(bad("the mesh has no axis".to_string()));
    }
    let mesh = Mesh::new("m", axes);
    mesh.check().map_err(|problem| bad(problem.message.clone()))?;
    Ok(mesh)
}

fn on_mesh(site: &Site<'_>, root: &Node, node: &Node) -> Checked<(Base, Groups)> {
    let mesh = mesh(node)?;
    let devices = mesh.devices();
    let replicas = match root.get("replicas") {
        None => 1,
        Some(node) => {
            let replicas = whole("replicas", node)?;
            if !devices.is_multiple_of(replicas) {
                let divisors: Vec<String> = (1..=devices)
                    .filter(|n| devices.is_multiple_of(*n))
                    .map(|n| n.to_string())
                    .collect();
                let message = format!("{devices} devices of a stage are no {replicas} replicas");
                let help = format!("give one of {}", divisors.join(", "));
                let problem = fault(codes::SCHEDULE_ILLEGAL, message, node.span, help);
                return Err(Box::new(Fault { legal: divisors, ..*problem }));
            }
            replicas
        }
    };
    let found = self::devices(root).unwrap_or(devices);
    if found != site.devices.1 {
        let stages = found / devices.max(1);
        let message = format!(
            "the mesh has {devices} devices in {stages} stages, {found} in all, and the cluster has {}",
            site.devices.1
        );
        let help =
            format!("give axes whose sizes come to {}", (site.devices.1 / stages.max(1)).max(1));
        return Err(fault(codes::SCHEDULE_ILLEGAL, message, node.span, help));
    }
    let groups = Groups { mesh: mesh.clone(), named: Vec::new() };
    Ok((Base::Operands { mesh, replicas }, groups))
}

fn stages(site: &Site<'_>, root: &Node, base: &Base) -> Checked<Vec<u64>> {
    let layers = site.facts.layers;
    let wanted = match base {
        Base::Rule(rule) => Some(rule.degrees.pp),
        Base::Operands { .. } => None,
    };
    let Some(node) = root.get("stages") else {
        return Ok(balanced_stages(layers, wanted.unwrap_or(1)));
    };
    let Tree::List(items) = &node.tree else {
        return Err(mistyped("stages", node, "a list of whole numbers"));
    };
    let found = items.iter().map(|n| whole("stages", n)).collect::<Checked<Vec<u64>>>()?;
    let pp = wanted.unwrap_or(found.len() as u64).clamp(1, layers.max(1));
    let even: Vec<String> = balanced_stages(layers, pp).iter().map(u64::to_string).collect();
    let help = format!("give every stage a layer, such as [{}]", even.join(", "));
    let bad = |message| fault(codes::SCHEDULE_ILLEGAL, message, node.span, help.clone());
    if wanted.is_some_and(|pp| pp != found.len() as u64) {
        return Err(bad(format!("{} stages are given, and pp is {pp}", found.len())));
    }
    let sum = found.iter().fold(0, |sum: u64, n| sum.saturating_add(*n));
    if sum != layers {
        return Err(bad(format!("stages hold {sum} layers, and the model has {layers}")));
    }
    Ok(found)
}

impl Schedule {
    /// A schedule that states nothing, for each phase.
    pub(super) fn two(mesh: &Mesh) -> [Schedule; 2] {
        [Schedule::empty(mesh.clone()), Schedule::empty(mesh.clone())]
    }
}
