//! The family that an unknown model is nearest to: one that reads its file.

use super::fields::Fields;
use super::log::Log;
use super::registry::{FAMILIES, Family};
use super::{Options, finish, resolve, unread};
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
    let reading: Vec<(&'static Family, usize)> = reading.collect();
    let names = || reading.iter().flat_map(|(f, _)| f.model_types.iter().copied());
    match nearest::nearest(model_type, names()) {
        Some(near) => reading.iter().find(|(f, _)| f.model_types.contains(&near)),
        None => reading.iter().min_by_key(|(_, unread)| *unread),
    }
    .map(|(family, _)| family.name)
}

/// How many keys of the text model the family leaves unread; none where it fails, or where one of
/// them changes other models.
fn unread_keys(top: &Fields, family: &'static Family) -> Option<usize> {
    let log = Log::default();
    let top = top.logged(&log);
    let options = Options { assume: Some(family.name.to_string()), ..Options::default() };
    let cx = resolve::resolve(&top, &options).ok()?;
    finish(&cx, &options).ok()?;
    (unread::keys(&cx).count() == 0)
        .then(|| cx.fields.keys().filter(|key| cx.unasked(key).is_some()).count())
}
