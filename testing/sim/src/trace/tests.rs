use std::time::Duration;

use super::*;

fn traced(at: Duration, write: bool, sector: u64, sectors: u64) -> TraceRequest {
    TraceRequest {
        at,
        write,
        sector,
        sectors,
    }
}

#[test]
fn text_traces_are_read_line_by_line() {
    let oltp = TraceFormat::Oltp
        .read(b"0 0 303567 7 0\n26214000 0 303574 7 1\n", 9)
        .unwrap();
    let later = Duration::from_micros(26_214);
    assert_eq!(
        oltp,
        [
            traced(Duration::ZERO, true, 303_567, 7),
            traced(later, false, 303_574, 7)
        ]
    );
    let disksim = TraceFormat::DiskSim.read(b"7961.5 0 20228336 8 0\n8346.25 0 6397360 496 1\n", 1);
    let first = Duration::from_micros(7_961_500);
    assert_eq!(disksim.unwrap(), [traced(first, true, 20_228_336, 8)]);
    assert_eq!(
        TraceFormat::Oltp.read(b"0 0 1 1 0\nhello\n", 9),
        Err(TraceFormatError { record: 1 })
    );
}

#[test]
fn binary_traces_are_read_record_by_record() {
    let mut bytes = vec![0; 64];
    bytes[4..8].copy_from_slice(&1024u32.to_le_bytes());
    bytes[12] = 0x2a;
    bytes[16..24].copy_from_slice(&77u64.to_le_bytes());
    bytes[24..32].copy_from_slice(&5u64.to_le_bytes());
    bytes[32 + 12] = 0x28;
    let trace = TraceFormat::Vscsi.read(&bytes, 9).unwrap();
    assert_eq!(trace[0], traced(Duration::from_micros(5), true, 77, 2));
    assert!(!trace[1].write);
    assert_eq!(
        TraceFormat::Vscsi.read(&bytes[..40], 9),
        Err(TraceFormatError { record: 1 })
    );
}

#[test]
fn hp_traces_are_read_record_by_record_after_their_text_header() {
    let record = |words: [u32; 12]| {
        let mut bytes = words.map(u32::to_be_bytes).concat();
        bytes.resize(56, 0);
        bytes
    };
    let mut bytes = b"$$TR_IOREC\ndisks = { 0 -> { rpm = 4002 };\n};\n\x0c".to_vec();
    bytes.extend(record([
        56,
        4 << 16 | 1,
        3,
        250,
        9,
        9,
        8192,
        22,
        1,
        1,
        1,
        0x0800_0106,
    ]));
    bytes.extend(record([
        56,
        4 << 16 | 1,
        4,
        0,
        9,
        9,
        1024,
        23,
        0,
        0,
        0,
        0x0800_0107,
    ]));
    let first = Duration::from_micros(3_000_250);
    assert_eq!(
        TraceFormat::Srt.read(&bytes, 9).unwrap(),
        [
            traced(first, true, 11, 16),
            traced(Duration::from_secs(4), false, 11, 3)
        ]
    );
    assert_eq!(TraceFormat::of_name("week.srt"), Some(TraceFormat::Srt));
    let short = &bytes[..bytes.len() - 1];
    assert_eq!(
        TraceFormat::Srt.read(short, 9),
        Err(TraceFormatError { record: 1 })
    );
    assert_eq!(
        TraceFormat::Srt.read(b"no text ends here", 9),
        Err(TraceFormatError { record: 0 })
    );
}

const GOOD: &str = "R Hit    2992396   4  13670.00000  35942.00000\n\
                    W x 3865568 8 1971.0 29108.0\n";

#[test]
fn a_measured_trace_is_read_unchanged() {
    let trace = read_measured(GOOD).expect("two good lines");
    assert_eq!(
        trace,
        [
            MeasuredRequest {
                write: false,
                first: 2_992_396,
                blocks: 4,
                service_us: 13_670.0,
                gap_us: 35_942.0
            },
            MeasuredRequest {
                write: true,
                first: 3_865_568,
                blocks: 8,
                service_us: 1971.0,
                gap_us: 29_108.0
            },
        ]
    );
}

#[test]
fn an_invalid_trace_is_refused_with_the_line_number() {
    for bad in [
        "",
        "\n\n",
        "R Hit 1 4 100.0",
        "R Hit 1 4 100.0 1.0 1.0",
        "X Hit 1 4 100.0 1.0",
        "R Hit -1 4 100.0 1.0",
        "R Hit 1 0 100.0 1.0",
        "R Hit 1 4294967296 100.0 1.0",
        "R Hit 18446744073709551616 4 100.0 1.0",
        "R Hit 1 4 NaN 1.0",
        "R Hit 1 4 inf 1.0",
        "R Hit 1 4 -5 1.0",
        "R Hit 1 4 100.0 1e300",
        "\u{0}\u{1}\u{2}",
    ] {
        let error = read_measured(bad).expect_err(bad);
        let in_line =
            |error: &MeasuredTraceError| matches!(error, MeasuredTraceError::Line { line: 1, .. });
        assert!(bad.trim().is_empty() || in_line(&error), "{bad:?}: {error}");
    }
    let later = read_measured(&format!("{GOOD}rubbish\n")).expect_err("a bad third line");
    let source = MeasuredRequestError::Words(1);
    assert_eq!(later, MeasuredTraceError::Line { line: 3, source });
}
