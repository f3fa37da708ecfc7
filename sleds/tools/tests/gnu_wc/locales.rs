//! Tests of locales with other character sets, made for the test by `localedef`.

use crate::can_compare;
use crate::support::{GnuCase, cool, make_locale, scratch, seed, settle, skip};
use forebay_rng::Rng;

/// Returns words in the character set, and bytes that break them.
fn text(rng: &Rng, characters: &[&[u8]]) -> Vec<u8> {
    let n = rng.pick(&[0, 1, 10, 1000, 30_000, 90_000]);
    let mut out = Vec::new();
    for _ in 0..n {
        match rng.below(40) {
            0 => out.push(rng.next() as u8),
            1 => out.push(rng.pick(b"\t\n\r\x0b\x0c\0\x1b")),
            2..8 => out.push(b' '),
            _ => out.extend_from_slice(rng.pick::<&[u8]>(characters)),
        }
    }
    out
}

#[test]
fn other_character_sets_are_counted_like_in_gnu_wc() {
    let test = "other_character_sets_are_counted_like_in_gnu_wc";
    if !can_compare(test) {
        return;
    }
    let seed = seed();
    let rng = Rng::new(seed);
    let (dir, locales) = (scratch(), scratch());
    let sets: [(&str, &str, &[&[u8]]); 4] = [
        (
            "de_DE",
            "ISO-8859-1",
            &[b"a", b"\xe4", b"\xdf", b"\xa0", b"\x85", b"\xad"],
        ),
        (
            "ja_JP",
            "EUC-JP",
            &[b"a", b"\xa4\xa2", b"\xa1\xa1", b"\x8e\xb1", b"\x8f\xb0\xa1"],
        ),
        (
            "zh_CN",
            "GBK",
            &[b"a", b"\xc4\xe3", b"\xa1\xa1", b"\x81\x40", b"\xb0\x5c"],
        ),
        (
            "ja_JP",
            "SHIFT_JIS",
            &[b"a", b"\x82\xa0", b"\x81\x40", b"\xb1", b"\x95\x5c"],
        ),
    ];
    for (source, charset, characters) in sets {
        let Some(name) = make_locale(locales.path(), source, charset) else {
            skip(
                test,
                &format!("no locale {source}.{charset}: are the package locales' sources there?"),
            );
            continue;
        };
        let names: Vec<String> = (0..12).map(|n| format!("{charset}{n}")).collect();
        for name in &names {
            let bytes = text(&rng, characters);
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        settle(dir.path());
        for columns in [&["-lwcmL"][..], &["-m"], &["-w"], &["-L"], &["-l"], &[]] {
            for name in &names {
                cool(&dir.path().join(name), &rng);
            }
            GnuCase::new("wc", dir.path())
                .ours(["--plan=best"])
                .args(columns)
                .args(&names)
                .env("LOCPATH", locales.path().to_str().unwrap())
                .env("LC_CTYPE", &name)
                .check(seed);
        }
    }
}
