//! The answers to HTTP clients.

use super::HttpSite;
use super::history::{VitalsHistory, present};
use super::request::HttpRequest;
use crate::daemon::metrics;
use crate::report::StatusReport;

/// The page with its style and script; [`NONCE`] is still to be replaced.
const PAGE: &str = include_str!("page.html");
/// Placeholder in the page for a random number that is unique to each answer. Browsers accept only scripts and styles
/// with this number, so that injected text can never run.
const NONCE: &str = "NONCE";

const TEXT: &str = "text/plain; charset=utf-8";
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// An HTTP answer.
struct HttpResponse {
    status: &'static str,
    content_type: &'static str,
    /// Additional headers, each with its line end.
    headers: String,
    body: String,
}

impl HttpResponse {
    fn ok(content_type: &'static str, body: String) -> HttpResponse {
        HttpResponse {
            status: "200 OK",
            content_type,
            headers: String::new(),
            body,
        }
    }

    fn refusal(status: &'static str, body: &str) -> HttpResponse {
        HttpResponse {
            status,
            ..HttpResponse::ok(TEXT, body.into())
        }
    }

    fn text(&self) -> String {
        let HttpResponse {
            status,
            content_type,
            headers,
            body,
        } = self;
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
             X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\n{headers}Connection: close\r\n\r\n{body}",
            body.len()
        )
    }
}

/// Returns the answer to a request head. Makes a report only if the request needs one.
pub(super) fn answer(
    head: &[u8],
    site: HttpSite,
    history: &VitalsHistory,
    report: impl FnOnce() -> StatusReport,
) -> String {
    let response = match HttpRequest::parse(head) {
        None => HttpResponse::refusal("400 Bad Request", ""),
        Some(request) if site.local && !request.is_for_this_machine() => {
            let why = "this page is for this machine only: open it as localhost or 127.0.0.1\n";
            HttpResponse::refusal("403 Forbidden", why)
        }
        Some(request) if request.method != "GET" => HttpResponse {
            headers: "Allow: GET\r\n".into(),
            ..HttpResponse::refusal("405 Method Not Allowed", "")
        },
        Some(request) => respond(&request.path, site, history, report),
    };
    response.text()
}

fn respond(
    path: &str,
    site: HttpSite,
    history: &VitalsHistory,
    report: impl FnOnce() -> StatusReport,
) -> HttpResponse {
    match path {
        "/metrics" => HttpResponse::ok(METRICS, metrics::text(&report())),
        "/status.json" if site.page => match serde_json::to_string(&report()) {
            Ok(json) => HttpResponse::ok("application/json", json + "\n"),
            Err(error) => HttpResponse::refusal("500 Internal Server Error", &error.to_string()),
        },
        "/live.json" if site.page => {
            HttpResponse::ok("application/json", format!("{}\n", present(&report())))
        }
        "/history.json" if site.page => {
            HttpResponse::ok("application/json", format!("{}\n", history.json()))
        }
        "/" if site.page => page(),
        _ if site.page => HttpResponse::refusal(
            "404 Not Found",
            "see /, /status.json, /history.json and /metrics\n",
        ),
        _ => HttpResponse::refusal("404 Not Found", "see /metrics\n"),
    }
}

fn page() -> HttpResponse {
    let mut random = [0; 16];
    if let Err(error) = getrandom::fill(&mut random) {
        let why = format!("no random numbers: {error}\n");
        return HttpResponse::refusal("503 Service Unavailable", &why);
    }
    let nonce: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let headers = format!(
        "Content-Security-Policy: default-src 'none'; script-src 'nonce-{nonce}'; \
         style-src 'nonce-{nonce}'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'\r\nReferrer-Policy: no-referrer\r\n"
    );
    HttpResponse {
        headers,
        ..HttpResponse::ok("text/html; charset=utf-8", PAGE.replace(NONCE, &nonce))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report_tests::example;

    const PAGE_HERE: HttpSite = HttpSite {
        page: true,
        local: true,
    };
    const PAGE_ANYWHERE: HttpSite = HttpSite {
        page: true,
        local: false,
    };

    fn get(path: &str, host: &str, site: HttpSite) -> String {
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        answer(head.as_bytes(), site, &VitalsHistory::default(), example)
    }

    fn refused(head: &[u8], site: HttpSite, status: &str) {
        let history = VitalsHistory::default();
        let answer = answer(head, site, &history, || unreachable!("no report is made"));
        let begin = format!("HTTP/1.1 {status} ");
        assert!(answer.starts_with(&begin), "{answer}");
    }

    #[test]
    fn metrics_are_served_on_both_kinds_of_address() {
        for (site, host) in [(HttpSite::METRICS, "x"), (PAGE_HERE, "localhost:1")] {
            let answer = get("/metrics", host, site);
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert!(answer.contains("version=0.0.4"), "{answer}");
            assert!(answer.contains("\nforebay_writes_total{"), "{answer}");
        }
    }

    #[test]
    fn the_served_report_equals_the_json_of_status() {
        let answer = get("/status.json?x", "127.0.0.1", PAGE_HERE);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains("application/json") && head.contains("nosniff"),
            "{head}"
        );
        assert_eq!(
            serde_json::from_str::<StatusReport>(body).unwrap(),
            example()
        );
    }

    #[test]
    fn unsupported_requests_get_an_error_and_no_report() {
        for (head, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
            (b"GET /status.json HTTP/1.1\r\n\r\n", "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"\x16\x03\x01\r\n\r\n", "400"),
            (b"\r\n\r\n", "400"),
        ] {
            refused(head, HttpSite::METRICS, status);
        }
        refused(b"GET /x HTTP/1.1\r\n\r\n", PAGE_ANYWHERE, "404");
        refused(
            b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n",
            PAGE_HERE,
            "405",
        );
    }

    #[test]
    fn a_local_address_refuses_requests_with_a_foreign_host_name() {
        for path in ["/", "/status.json", "/metrics"] {
            let head = format!("GET {path} HTTP/1.1\r\nHost: evil.example:9420\r\n\r\n");
            refused(head.as_bytes(), PAGE_HERE, "403");
            let nameless = format!("GET {path} HTTP/1.1\r\n\r\n");
            refused(nameless.as_bytes(), PAGE_HERE, "403");
            assert!(get(path, "evil.example:9420", PAGE_ANYWHERE).contains(" 200 OK"));
        }
    }

    #[test]
    fn the_page_runs_only_its_own_script_and_loads_nothing_from_other_sites() {
        let answers = [0; 2].map(|_| get("/", "localhost", PAGE_HERE));
        assert_ne!(answers[0], answers[1], "the nonce is used once");
        let (head, body) = answers[0].split_once("\r\n\r\n").unwrap();
        let nonce = head.split("script-src 'nonce-").nth(1).unwrap();
        let nonce = &nonce[..32];
        assert!(
            nonce.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{nonce}"
        );
        assert!(head.contains("default-src 'none'") && head.contains("frame-ancestors 'none'"));
        assert!(!head.contains("unsafe"), "{head}");
        assert_eq!(body.matches(nonce).count(), 2, "a style and a script");
        assert!(!body.contains(NONCE));
        for way in [
            " src=",
            "href=",
            "@import",
            "url(",
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            " style=",
            " onclick=",
            " onload=",
        ] {
            assert!(!body.contains(way), "{way}");
        }
        // The only address in the page is the namespace of SVG.
        assert_eq!(body.matches("://").count(), 1);
    }
}
