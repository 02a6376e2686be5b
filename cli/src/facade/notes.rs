//! Warnings about what a plan does not keep of a request's pins.

use super::{PhasePlan, Request};
use crate::codes;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::graph::{Level, Module};
use shardc_passes::explain::formed;
use shardc_passes::search::Method;
use shardc_passes::strategy::{Groups, Pin};

/// What the reader of a plan should know about its pins: a search that does not look at layouts
/// while they are pinned, and pins that no operator takes.
///
/// # Errors
/// A pin cannot be read.
pub(super) fn of_pins(
    request: &Request,
    pins: Option<&str>,
    groups: &Groups,
    phases: &[PhasePlan],
) -> Result<Vec<Diagnostic>> {
    let Some(text) = pins else { return Ok(Vec::new()) };
    let mut out = Vec::new();
    let searched = request.layout.is_none() && request.schedule.is_none();
    if request.method == Method::Exact && searched {
        let message = "`--search exact` does not search layouts while some are pinned: this is the \
                       plan of `degrees` with the pins";
        let help = "compile without --pin, then change the lines of schedule.toml that the pins \
                    were for (docs/schedule.md)";
        out.push(Diagnostic::warning(codes::PINS_UNSEARCHED, message).help(help));
    }
    let pins = Pin::parse_file(text, groups)?;
    out.extend(pins.iter().filter_map(|pin| bypassed(pin, phases)));
    Ok(out)
}

/// A pin that no value takes: every reader takes it in another layout, so it moves there directly.
fn bypassed(pin: &Pin, phases: &[PhasePlan]) -> Option<Diagnostic> {
    let dumps = phases.iter().filter_map(|p| p.dumps.iter().find(|d| d.1.level == Level::Sharded));
    let modules: Vec<&Module> = dumps.map(|(_, module)| module).collect();
    let mut named: Vec<(String, String)> = Vec::new();
    for func in modules.iter().flat_map(|module| module.funcs.values()) {
        let fits = func
            .values
            .values()
            .filter(|v| pin.matches(&func.name, &v.name) && v.ty.rank() == pin.layout.dims.len());
        named.extend(fits.map(|v| (func.name.clone(), v.name.clone())));
    }
    let forms = |(func, value): &(String, String)| {
        modules.iter().any(|module| formed(module, (func, value), &pin.layout))
    };
    let (first, all) = (named.first()?, named.iter().any(forms));
    if all {
        return None;
    }
    let message = format!(
        "the pin `{}` is bypassed: no operator takes %{} of @{} in that layout",
        pin.pattern, first.1, first.0
    );
    let help = "pin what reads the value too; `shardc explain DIR --op NAME` lists its readers";
    Some(Diagnostic::warning(codes::PIN_BYPASSED, message).help(help))
}
