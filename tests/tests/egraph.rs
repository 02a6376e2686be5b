//! The table of rules as a whole: wrong rules are caught, every rule has a case, and the page lists
//! them all.
//!
//! `UPDATE_DOCS=1 cargo test -p shardc-tests --test egraph` rewrites the tables of `docs/algebra.md`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where the project is wrong")]

use shardc_interp::Inputs;
use shardc_ir::algebra::{Condition, GROUPS, Plane, Row, Rule, Theme, rules};
use shardc_ir::graph::Module;
use shardc_passes::absorb_latent_attention::absorb_latent_attention;
use shardc_passes::egraph::module::{Alternative, Equal};
use shardc_passes::egraph::{Budget, Graph, saturate, seed};
use shardc_passes::registry::{Options, resolve};
use shardc_tests::algebra::{check, check_numbers, check_with};
use shardc_tests::pins::pinned;
use shardc_tests::program::Program;
use shardc_tests::random::Random;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn files(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("files").join(kind)
}

fn program(name: &str) -> Program {
    let source = fs::read_to_string(files("algebra").join(name)).unwrap();
    Program::read(&source).unwrap()
}

#[test]
fn every_rule_has_a_case() {
    let entries = fs::read_dir(files("algebra")).unwrap();
    let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
    let covered: BTreeSet<String> =
        names.map(|n| n.split('.').next().unwrap_or_default().to_string()).collect();
    let lacking = rules().iter().filter(|r| !covered.contains(r.row.name));
    let lacking: Vec<&str> = lacking.map(|r| r.row.name).collect();
    assert!(lacking.is_empty(), "without a case in tests/files/algebra: {lacking:?}");
}

/// A case, a rule that is wrong there, and what is wrong with it.
type Wrong = (&'static str, &'static str, &'static str, &'static [Condition], &'static str);

/// Wrong rules of which the numbers alone must tell.
const WRONG: [Wrong; 11] = [
    ("reduce-by-scatter.sir", "all_reduce[k a](x)", "x", &[], "the reduction is missing"),
    ("scatter-of-complete.sir", "reduce_scatter[k g](x)", "x", &[], "the scatter is missing"),
    (
        "reduce-by-steps.sir",
        "all_reduce[k c](x)",
        "all_reduce[k a](x)",
        &[Condition::Unites { whole: "c", first: "a", second: "b" }],
        "half of the reduction is missing",
    ),
    (
        "gather-slice-elsewhere.sir",
        "all_slice[h](all_gather[g](x))",
        "x",
        &[],
        "parts of another dimension",
    ),
    (
        "gather-slice-elsewhere.sir",
        "all_slice[h](all_gather[g](x))",
        "all_slice[g](all_gather[g](x))",
        &[],
        "an axis on another dimension",
    ),
    ("exchange-by-gather.sir", "all_to_all[m](x)", "x", &[], "the exchange is missing"),
    (
        "slice-slice.sir",
        "all_slice[h](all_slice[g](x))",
        "all_slice[j](x)",
        &[Condition::Joins { whole: "j", major: "h", minor: "g" }],
        "axes in the wrong order",
    ),
    (
        "scatter-scatter.sir",
        "reduce_scatter[k h](reduce_scatter[k g](x))",
        "reduce_scatter[k j](x)",
        &[Condition::Joins { whole: "j", major: "h", minor: "g" }],
        "axes in the wrong order",
    ),
    ("join-partial-sum.sir", "add[d](x, y)", "y", &[], "the other operand is missing"),
    ("join-partial-sum.sir", "add[d](x, y)", "x", &[], "an operand is missing"),
    ("scatter-late.sir", "scale[b](x)", "x", &[], "an operator is missing"),
];

fn inputs(program: &Program, file: &str) -> Inputs {
    let mut random = Random::of(file, 0);
    let bind = program.bind(&mut random);
    let main = program.module.func("main").unwrap();
    program.inputs(&program.module.funcs[main], &bind, &mut random).unwrap()
}

fn wrong_rule(&(_, lhs, rhs, when, doc): &Wrong) -> Rule {
    let row = Row { name: "planted", lhs, rhs, when, doc };
    Rule::of(row, Theme::Collectives, Plane::Device).unwrap()
}

/// Running tells of a wrong rule whatever else would.
#[test]
fn numbers_alone_catch_wrong_rules() {
    for wrong in &WRONG {
        let program = program(wrong.0);
        let outcome =
            check_numbers(&program.module, &wrong_rule(wrong), &inputs(&program, wrong.0));
        // Another result, copies that differ, or a part that no device has: all come of running.
        let told = ["differ", "X301", "does not hold"];
        let caught = outcome.as_ref().is_err_and(|what| told.iter().any(|t| what.contains(t)));
        assert!(caught, "{}, {} for {}: {outcome:?}", wrong.4, wrong.2, wrong.1);
    }
}

/// The same look finds nothing wrong with the table.
#[test]
fn numbers_alone_let_right_rules_pass() {
    let mut runs = 0;
    for entry in fs::read_dir(files("algebra")).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let rule = Rule::named(file.split('.').next().unwrap());
        let (Some(rule), program) = (rule, program(&file)) else { continue };
        runs += check_numbers(&program.module, rule, &inputs(&program, &file)).unwrap();
    }
    assert!(runs >= 15, "{runs} programs were run");
}

/// With its own guards as well, the e-graph lets none of them through.
#[test]
fn wrong_rules_are_caught() {
    for wrong in &WRONG {
        let program = program(wrong.0);
        let inputs = inputs(&program, wrong.0);
        let rules = [wrong_rule(wrong)];
        let outcome = check(&program.module, &rules, Budget::default(), 8, &inputs);
        assert!(outcome.is_err(), "{}: nobody noticed", wrong.4);
    }
}

/// Every program `@other` of `tests/files/emerge` is in the graph of its `@plain`: seeding it adds no
/// node.
#[test]
fn what_engines_do_by_hand_emerges() {
    let mut seen = 0;
    for entry in fs::read_dir(files("emerge")).unwrap() {
        let path = entry.unwrap().path();
        let module = Program::read(&fs::read_to_string(&path).unwrap()).unwrap().module;
        let func = |name: &str| &module.funcs[module.func(name).unwrap()];
        let mut graph = Graph::new(module.mesh.clone().unwrap());
        seed(&mut graph, func("plain")).unwrap();
        saturate(&mut graph, rules(), Budget::default());
        assert_eq!(graph.disagreements(), Vec::<String>::new(), "{}", path.display());
        let before = graph.size();
        let seeded = seed(&mut graph, func("other")).unwrap();
        assert_eq!(graph.size(), before, "{}", path.display());
        assert!(!seeded.held.is_empty());
        seen += 1;
    }
    assert!(seen >= 5, "{seen} cases");
}

/// A module with the layouts of the parameters of another, and nothing else decided.
fn stored_like(mut module: Module, other: &Module) -> Module {
    module.mesh.clone_from(&other.mesh);
    for (func, like) in module.funcs.values_mut().zip(other.funcs.values()) {
        let layouts: Vec<_> =
            like.params.iter().map(|&p| like.values[p].sharding.clone()).collect();
        func.values.values_mut().for_each(|v| v.sharding = None);
        let params = func.params.clone();
        for (param, sharding) in params.into_iter().zip(layouts) {
            func.values[param].sharding = sharding;
        }
    }
    module
}

/// Latent attention absorbed and expanded are one value in a graph that begins with both, whatever the
/// layouts; programs of both forms come out, and give the same numbers.
#[test]
fn forms_of_latent_attention_are_equal() {
    let source = fs::read_to_string(files("meaning").join("latent-attention.sir")).unwrap();
    let program = Program::read(&source).unwrap();
    let plain = &program.module;
    let mut absorbed = plain.clone();
    absorb_latent_attention(&mut absorbed, &Options::default()).unwrap();
    let mut random = Random::of("latent-attention", 0);
    let bind = program.bind(&mut random);
    let main = plain.func("main").unwrap();
    let inputs = program.inputs(&plain.funcs[main], &bind, &mut random).unwrap();
    let sizes = plain.syms.iter().map(|(sym, data)| (data.name.clone(), bind.get(sym))).collect();
    let options = Options { sizes, ..Options::default() };
    let lower = "propagate-shardings,insert-reshards,reshard-to-collectives,optimize-collectives";
    let lower = resolve(lower).unwrap();
    let mut forms = BTreeSet::new();
    for variant in 1..=12 {
        let like = pinned(plain, &mut Random::of("latent-attention", variant));
        let [own, other] = [plain, &absorbed].map(|module| {
            let mut module = stored_like(module.clone(), &like);
            lower.iter().for_each(|pass| drop(pass.apply(&mut module, &options).unwrap()));
            module
        });
        for (own, other) in [(&own, &other), (&other, &own)] {
            let name = || "ctx".to_string();
            let equal = vec![Equal { func: "main".to_string(), own: name(), other: name() }];
            let other = [Alternative { module: other.clone(), equal }];
            let budget = Budget { nodes: 1_500, rounds: 12 };
            let checked = check_with(own, &other, (rules(), budget), 4, &inputs).unwrap();
            forms.extend(checked.forms);
        }
    }
    assert_eq!(forms, BTreeSet::from([0, 1]), "one form never came out");
}

/// The tables of the page: rules by theme, then conditions.
fn reference() -> String {
    let mut out = String::new();
    for (theme, _, rows) in GROUPS {
        out.push_str(&format!(
            "**{}**\n\n| rule | becomes | when | why |\n|---|---|---|---|\n",
            theme.name()
        ));
        for row in *rows {
            let when: Vec<String> = row.when.iter().map(Condition::text).collect();
            // A bracket before a parenthesis would be a link.
            let text = |side: &str| side.replace("](", "] (");
            let (lhs, rhs, when) = (text(row.lhs), text(row.rhs), when.join("; "));
            out.push_str(&format!("| {}: `{lhs}` | `{rhs}` | {when} | {} |\n", row.name, row.doc));
        }
        out.push('\n');
    }
    out.push_str("| condition | holds of |\n|---|---|\n");
    for (name, text) in Condition::KINDS {
        out.push_str(&format!("| {name} | {text} |\n"));
    }
    out.push('\n');
    out
}

#[test]
fn the_page_is_in_step() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/algebra.md");
    let page = fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- generated: rules -->\n\n", "<!-- end -->");
    let (before, rest) = page.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let wanted = format!("{before}{begin}{}{end}{after}", reference());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path, wanted).unwrap();
    } else {
        assert!(page == wanted, "docs/algebra.md is out of step: run this test with UPDATE_DOCS=1");
    }
}
