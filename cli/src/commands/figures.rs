//! Numbers for people.

use shardc_cost::profile::{Overlap, Profile};
use shardc_cost::time::Ns;

/// `95,200`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 request`, `95,200 requests`: a number of things, whose name takes an `s`.
pub fn counted(n: u64, thing: &str) -> String {
    format!("{} {thing}{}", count(n), if n == 1 { "" } else { "s" })
}

/// `671.03 B`, `8.19 M`, `512`.
pub fn magnitude(n: u64) -> String {
    match n {
        0..1_000_000 => count(n),
        1_000_000..1_000_000_000 => format!("{:.2} M", n as f64 / 1e6),
        1_000_000_000..1_000_000_000_000_000 => format!("{:.2} B", n as f64 / 1e9),
        _ => format!("{:.2e}", n as f64),
    }
}

/// `1,906.6`: one digit after the point, none from a hundred thousand on.
pub fn rate(x: f64) -> String {
    if !x.is_finite() {
        return "?".to_string();
    }
    let tenths = (x * 10.0).round() as u64;
    if tenths >= 1_000_000 {
        count(tenths / 10)
    } else {
        format!("{}.{}", count(tenths / 10), tenths % 10)
    }
}

/// Bytes in the unit that gives one to three digits before the point: `12.6 MB`.
pub fn size(bytes: u64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    match units.iter().find(|(unit, _)| bytes as f64 >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit),
        None => format!("{bytes} B"),
    }
}

/// Bytes in GiB, two digits.
pub fn gib(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / (1u64 << 30) as f64)
}

/// A part of a whole, `12.3 %`.
pub fn percent(part: Ns, whole: Ns) -> String {
    format!("{:.1} %", 100.0 * part.as_f64() / whole.as_f64().max(1.0))
}

/// Whose kernels are priced, and what runs beside them.
pub fn kernels(profile: &Profile) -> String {
    let beside = match profile.overlap {
        Overlap::None => "",
        Overlap::Streams { .. } => ", collectives beside them",
    };
    format!("kernels as in {}{beside}", profile.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!(
            [0, 999, 1000, 95_200, 1_234_567].map(count).join(" "),
            "0 999 1,000 95,200 1,234,567"
        );
        assert_eq!(
            [0, 1, 1000].map(|n| counted(n, "token")).join(" "),
            "0 tokens 1 token 1,000 tokens"
        );
        assert_eq!(magnitude(671_026_419_200), "671.03 B");
        assert_eq!(rate(1906.613), "1,906.6");
        assert_eq!(rate(488_092.88), "488,092");
        assert_eq!([0, 999, 12_582_912].map(size).join(" "), "0 B 999 B 12.6 MB");
        assert_eq!(gib(13_156_288_256), "12.25");
        assert_eq!(percent(Ns::new(1), Ns::new(8)), "12.5 %");
    }
}
