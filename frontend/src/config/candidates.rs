//! The family that an unknown model is nearest to: one that reads its file.

use super::fields::Fields;
use super::log::Log;
use super::registry::{FAMILIES, Family};
use super::{Cx, Options, finish, resolve, unread};
use shardc_ir::nearest;

/// Ends of architectures' names that generate text, as decoders do.
const GENERATORS: [&str; 3] = ["ForCausalLM", "LMHeadModel", "ForConditionalGeneration"];

/// The family that `--assume` reads the file as without an error and without leaving out a part:
/// one whose name is close where there is one, else the one that leaves the fewest keys unread.
/// None for an architecture that does not generate text.
pub(super) fn nearest(
    top: &Fields,
    model_type: &str,
    architectures: &[&str],
) -> Option<&'static str> {
    let generates = |name: &&str| GENERATORS.iter().any(|end| name.ends_with(end));
    if !architectures.is_empty() && !architectures.iter().any(generates) {
        return None;
    }
    let reading = FAMILIES.iter().filter_map(|f| Some((f, unread_keys(top, f)?)));
    let mut reading: Vec<(&'static Family, usize)> = reading.collect();
    let names = reading.iter().flat_map(|(f, _)| f.model_types.iter().copied());
    let near = nearest::nearest(model_type, names);
    let is_near = |f: &Family| near.is_some_and(|near| f.model_types.contains(&near));
    reading.sort_by_key(|(f, unread)| (!is_near(f), *unread));
    reading.into_iter().map(|(f, _)| f).find(|f| is_read_whole(top, f)).map(|f| f.name)
}

/// How many keys of the text model the family leaves unread; none where its reader fails.
fn unread_keys(top: &Fields, family: &'static Family) -> Option<usize> {
    attempt(top, family, |cx, _| {
        (family.read)(cx).ok()?;
        Some(cx.fields.keys().filter(|key| cx.unasked(key).is_some()).count())
    })
}

/// Whether the family reads the file without an error, and without a key left that changes models.
fn is_read_whole(top: &Fields, family: &'static Family) -> bool {
    let whole = |cx: &Cx, options: &Options| {
        finish(cx, options).ok()?;
        unread::keys(cx).next().is_none().then_some(())
    };
    attempt(top, family, whole).is_some()
}

/// What `ask` makes of the file as one of the family.
fn attempt<T>(
    top: &Fields,
    family: &'static Family,
    ask: impl Fn(&Cx, &Options) -> Option<T>,
) -> Option<T> {
    let log = Log::default();
    let top = top.logged(&log);
    let options = Options { assume: Some(family.name.to_string()), ..Options::default() };
    let cx = resolve::resolve(&top, &options).ok()?;
    ask(&cx, &options)
}
