//! The ranks: those of every stage, each in one program.

use super::Subject;
use crate::codes;
use crate::findings::Findings;

const HELP: &str = "the ranks of stage s are those from s·n on, for n devices of the mesh";

/// Checks that every rank of every stage runs one program, and that it is its stage's.
pub(super) fn check(subject: &Subject<'_>, findings: &mut Findings) {
    let devices = subject.mesh.devices();
    for program in &subject.plan.programs {
        let name = format!("the program for ranks {}..{}", program.ranks[0], program.end());
        let own = program.stage.saturating_mul(devices);
        let inside = program.stage < subject.stages
            && program.ranks[1] > 0
            && program.ranks[0] >= own
            && program.end() <= own.saturating_add(devices);
        if !inside {
            let message = format!("{name} is not inside of stage {}", program.stage);
            findings.add(codes::RANKS, message, HELP);
        }
        let wanted = format!("stage_{}", program.stage);
        let routine = subject.plan.routine(&program.routine);
        if routine.is_none_or(|r| r.function != wanted) {
            let message = format!("{name} runs @{}, not @{wanted}", program.routine);
            findings.add(codes::STRUCTURE, message, HELP);
        }
    }
    let mut ranges: Vec<[u64; 2]> =
        subject.plan.programs.iter().map(|p| [p.ranks[0], p.end()]).collect();
    ranges.sort_unstable();
    let mut next = 0;
    for [first, end] in ranges {
        if first != next {
            let message = match first < next {
                true => format!("rank {first} stands in two programs"),
                false => format!("rank {next} stands in no program"),
            };
            findings.add(codes::RANKS, message, HELP);
        }
        next = end.max(next);
    }
    let all = subject.stages.saturating_mul(devices);
    if next < all {
        findings.add(codes::RANKS, format!("rank {next} stands in no program"), HELP);
    }
}
