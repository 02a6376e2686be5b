//! Times of traces: dates with a time of day, or seconds.

/// Nanoseconds of `2023-11-16 18:17:03.9799600`, of the same with `T`, `Z` or an offset, or of
/// seconds such as `12.5`; dates count from 1970. `None` if it is neither.
pub fn parse(text: &str) -> Option<i128> {
    match text.get(4..5) {
        Some("-") if text.len() >= 10 => date_time(text),
        _ => seconds(text),
    }
}

/// Seconds with a fraction, exact to the nanosecond.
fn seconds(text: &str) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !whole.is_empty() && whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        let whole: i128 = whole.parse().ok()?;
        return whole.checked_mul(1_000_000_000)?.checked_add(nanoseconds(fraction)?);
    }
    let value: f64 = text.parse().ok()?;
    // A cast saturates.
    (value.is_finite() && value >= 0.0).then_some((value * 1e9).round() as i128)
}

/// The first nine digits after a point.
fn nanoseconds(digits: &str) -> Option<i128> {
    let digits = digits.get(..9).unwrap_or(digits);
    format!("{digits:0<9}").parse().ok()
}

fn date_time(text: &str) -> Option<i128> {
    let (date, time) = (text.get(..10)?, text.get(10..)?);
    let mut parts = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if !((1..=12).contains(&month) && (1..=31).contains(&day)) {
        return None;
    }
    let day = i128::from(days(year, month, day)) * 86_400_000_000_000;
    match time.trim_start_matches(['T', ' ']) {
        "" => Some(day),
        time => Some(day + time_of_day(time)?),
    }
}

/// `18:17:03.98`, with an offset from UTC or without.
fn time_of_day(text: &str) -> Option<i128> {
    let text = text.trim_end_matches(['Z', 'z']);
    let (clock, offset) = match text.rfind(['+', '-']) {
        Some(at) => (text.get(..at)?, minutes(text.get(at..)?)?),
        None => (text, 0),
    };
    let mut parts = clock.trim().splitn(3, ':');
    let mut below = |most: i128| parts.next()?.parse::<i128>().ok().filter(|n| *n < most);
    let (hour, minute) = (below(24)?, below(60)?);
    let second = seconds(parts.next().unwrap_or("0"))?;
    (second < 61_000_000_000).then_some((hour * 60 + minute - offset) * 60_000_000_000 + second)
}

/// `+02:00` or `-0530` in minutes.
fn minutes(text: &str) -> Option<i128> {
    let digits: String = text.get(1..)?.chars().filter(char::is_ascii_digit).collect();
    let (hours, minutes) = digits.split_at_checked(2)?;
    let minutes = if minutes.is_empty() { "0" } else { minutes };
    let size = hours.parse::<i128>().ok()? * 60 + minutes.parse::<i128>().ok()?;
    Some(if text.starts_with('-') { -size } else { size })
}

/// Days from 1970-01-01 to a date of the Gregorian calendar; years begin in March, so that the
/// leap day ends them.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_seconds() {
        let second = 1_000_000_000i128;
        for (text, wanted) in [
            ("0", 0),
            ("12.5", 12 * second + 500_000_000),
            ("1e3", 1000 * second),
            ("1970-01-01", 0),
            ("1970-01-02 00:00:01", 86_401 * second),
            ("2000-03-01T00:00:00Z", 951_868_800 * second),
            ("2024-02-29 23:59:59.1234567", 1_709_251_199 * second + 123_456_700),
            ("2024-05-10 02:00:00.25+02:00", 1_715_299_200 * second + 250_000_000),
            ("2024-05-09 20:00:00-0400", 1_715_299_200 * second),
        ] {
            assert_eq!(parse(text), Some(wanted), "{text}");
        }
    }

    #[test]
    fn nonsense_is_none() {
        for text in [
            "",
            "x",
            "-1",
            "nan",
            "inf",
            "2024-13-01",
            "2024-01-01 25:00:00",
            "1.2.3",
            "2024-01-01 aa:00",
            "2024-é1-01 00",
            "20é4-01-01 00:00",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
