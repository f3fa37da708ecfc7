//! Rates of the whole tree, and their limits in STYLE.md, which may only be lowered.
//!
//! STYLE.md has a row `| NAME | LIMIT |` for each rate. The limit must be near the rate, so a commit that improves the
//! tree also lowers the limit.

use super::{ProjectTree, TidyProblem};

/// The page of the rules and the limits.
pub(super) const PAGE: &str = "STYLE.md";
/// Denominator of a rate: limits are whole numbers per 1,000.
pub(super) const PER: usize = 1000;
/// Maximum difference of a limit and its rate. Small changes of the tree then leave the limit alone.
const SLACK: usize = 4;

/// Returns `count` per 1,000 of `all`, rounded up.
pub(super) fn per_thousand(count: usize, all: usize) -> usize {
    (count * PER).div_ceil(all.max(1))
}

/// Compares rates with their limits. `shown_by` names the command that lists the places.
pub(super) fn check(
    tree: &ProjectTree,
    rates: &[(&'static str, usize)],
    shown_by: &str,
) -> Vec<TidyProblem> {
    let Some(page) = tree.text(PAGE) else {
        return vec![TidyProblem::new(PAGE, 0, "missing")];
    };
    let compared = rates.iter().filter_map(|(name, rate)| {
        let Some((line, limit)) = limit(page, name) else {
            let text = format!("no row `| {name} | LIMIT |`");
            return Some(TidyProblem::new(PAGE, 0, text));
        };
        let text = if *rate > limit {
            format!("{name}: {rate}, limit {limit}: `{shown_by}` shows where")
        } else if *rate + SLACK < limit {
            format!("{name}: {rate} now: lower the limit of {limit}")
        } else {
            return None;
        };
        Some(TidyProblem::new(PAGE, line, text))
    });
    compared.collect()
}

/// Returns the line and the value of a limit.
fn limit(page: &str, name: &str) -> Option<(usize, usize)> {
    let wanted = format!("| {name} |");
    let (index, line) = page
        .lines()
        .enumerate()
        .find(|(_, line)| line.contains(&wanted))?;
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    Some((index + 1, cells.get(2)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str, rate: usize) -> Vec<String> {
        let tree = ProjectTree::of(&[(PAGE, page)]);
        let problems = check(&tree, &[("odd things", rate)], "a command");
        problems.iter().map(TidyProblem::to_string).collect()
    }

    #[test]
    fn a_rate_above_its_limit_or_far_below_it_is_reported() {
        let page = "# Limits\n\n| counted | limit |\n|---|---|\n| odd things | 10 |\n";
        assert_eq!(found(page, 10), [""; 0]);
        assert_eq!(found(page, 6), [""; 0]);
        assert_eq!(
            found(page, 11),
            ["STYLE.md:5: odd things: 11, limit 10: `a command` shows where"]
        );
        assert_eq!(
            found(page, 5),
            ["STYLE.md:5: odd things: 5 now: lower the limit of 10"]
        );
    }

    #[test]
    fn a_rate_without_a_limit_is_reported() {
        assert_eq!(
            found("# Limits\n", 0),
            ["STYLE.md: no row `| odd things | LIMIT |`"]
        );
    }

    #[test]
    fn rates_are_rounded_up() {
        assert_eq!(per_thousand(1, 3), 334);
        assert_eq!(per_thousand(0, 0), 0);
    }
}
