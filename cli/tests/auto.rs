//! `--search auto` from outside: it runs what suits the request, and says which search that was and why.
#![allow(clippy::unwrap_used, reason = "a test stops where a run fails")]

mod common;

use common::{file, model, scratch, shardc};
use serde_json::Value;

const LLAMA: &str = "meta-llama__Meta-Llama-3.1-8B";

fn plan(search: &str, args: &[&str]) -> Value {
    let path = model(LLAMA);
    let run = shardc(&[&["compile", &path, "--search", search, "--json"], args].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.json()["plan"].clone()
}

/// A plan without the name of its search.
fn nameless(mut plan: Value) -> Value {
    for key in ["search", "auto"] {
        plan.as_object_mut().unwrap().remove(key);
    }
    plan
}

#[test]
fn auto_gives_the_plan_of_the_search_that_it_names() {
    let dir = scratch("auto");
    let pins = file(&dir, "pins", "*/attn.o: [{dp}, {}, {tp}]\n");
    let cases: [(&[&str], &str); 3] = [
        (&["--cluster", "h100x8", "--gpus", "2"], "exact"),
        (&["--cluster", "h100x8", "--gpus", "2", "--pin", &pins], "degrees"),
        (&["--cluster", "h100x8x8"], "degrees"),
    ];
    for (args, ran) in cases {
        let auto = plan("auto", args);
        assert_eq!((&auto["search"], &auto["auto"]["ran"]), (&"auto".into(), &ran.into()));
        assert!(auto["auto"]["why"].as_str().unwrap().len() > 20, "{}", auto["auto"]);
        let named = plan(ran, args);
        assert!(named["auto"].is_null());
        assert_eq!(nameless(auto), nameless(named), "{args:?}");
    }
}

#[test]
fn the_screen_says_what_ran_and_what_was_left_out() {
    let path = model(LLAMA);
    let run = shardc(&["compile", &path, "--cluster", "h100x8x4", "--search", "auto"]);
    let lines: Vec<&str> = run.stdout.lines().collect();
    let at = lines.iter().position(|l| l.starts_with("search    auto ran degrees: ")).unwrap();
    assert!(lines[at + 1].contains("costs of a steady load add up"), "{}", lines[at + 1]);
    assert!(lines[at + 1].contains("`rl` is left out"), "{}", lines[at + 1]);
}

/// Where the user decides, nothing is chosen.
#[test]
fn a_forced_layout_is_not_searched() {
    let plan = plan("auto", &["--cluster", "h100x8", "--layout", "tp=8"]);
    assert_eq!(plan["search"], "layout");
    assert!(plan["auto"].is_null());
}
