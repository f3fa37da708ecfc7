//! `status --watch` on a terminal: the whole screen, updated every second.
//!
//! `history.rs` holds the data and `draw.rs` draws it. This module handles the terminal and its keys, and a thread that
//! asks the daemons, so that an unresponsive daemon does not block the keys.

mod draw;
mod history;

use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use forebay_linux::{IoRing, SignalReader};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};

use draw::draw;
use forebay_command_output::failure::{CommandFailure, CommandResult};
use history::{WatchKey, WatchView};

pub(crate) use history::StatusSample;

/// Interval between two requests to the volumes.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Maximum delay until a key, an answer or a signal is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The ring is used only for signals, which are polled.
const RING_ENTRIES: u32 = 8;

/// Returns true if input and output are a terminal that can show a full screen.
pub(crate) fn is_possible() -> bool {
    let plain = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    !plain && io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Shows the first result `seen`, then the results of `ask`, until the user quits.
pub(crate) fn run(
    seen: StatusSample,
    ask: impl FnMut() -> CommandResult<StatusSample> + Send + 'static,
) -> CommandResult {
    // Before the thread starts, which would otherwise not block the signals. When `signals` is dropped, after the
    // terminal is restored, a pending signal ends the program.
    let ring = IoRing::new(RING_ENTRIES).map_err(CommandFailure::io)?;
    let signals = SignalReader::new(&ring).map_err(CommandFailure::io)?;
    let news = asked(ask);
    let mut view = WatchView::default();
    view.take(seen);
    // The terminal is restored after a panic, too.
    let watched =
        ratatui::try_init().and_then(|terminal| watch(terminal, &mut view, &news, &signals));
    let restored = ratatui::try_restore();
    watched.and(restored).map_err(cannot)
}

fn cannot(error: io::Error) -> CommandFailure {
    CommandFailure::io(format!(
        "cannot use the terminal: {error}; see `forebay status` without --watch"
    ))
}

/// Asks every second, and returns the channel of the results.
fn asked(
    mut ask: impl FnMut() -> CommandResult<StatusSample> + Send + 'static,
) -> Receiver<StatusSample> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        loop {
            thread::sleep(ASK_EVERY);
            let seen = ask().unwrap_or_else(|failure| StatusSample {
                reports: Vec::new(),
                notes: vec![failure.text],
            });
            if sender.send(seen).is_err() {
                return;
            }
        }
    });
    receiver
}

fn watch(
    mut terminal: DefaultTerminal,
    view: &mut WatchView,
    news: &Receiver<StatusSample>,
    signals: &SignalReader,
) -> io::Result<()> {
    let mut changed = true;
    while !view.ended && !signals.is_pending() {
        for seen in news.try_iter() {
            view.take(seen);
            changed = true;
        }
        if std::mem::take(&mut changed) {
            terminal.draw(|frame| draw(frame, view))?;
        }
        if event::poll(LOOK_EVERY)? {
            // A resize only needs a redraw.
            if let Event::Key(pressed) = event::read()?
                && let Some(key) = meaning(pressed)
            {
                view.press(key);
            }
            changed = true;
        }
    }
    Ok(())
}

fn meaning(pressed: KeyEvent) -> Option<WatchKey> {
    if !pressed.is_press() {
        return None;
    }
    let control = pressed.modifiers.contains(KeyModifiers::CONTROL);
    match pressed.code {
        KeyCode::Char('c' | 'd') if control => Some(WatchKey::Quit),
        KeyCode::Char('q') | KeyCode::Esc => Some(WatchKey::Quit),
        KeyCode::Right | KeyCode::Down | KeyCode::Tab => Some(WatchKey::Next),
        KeyCode::Left | KeyCode::Up | KeyCode::BackTab => Some(WatchKey::Previous),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_keys_have_their_usual_meaning_and_others_are_ignored() {
        let plain = |code| meaning(KeyEvent::new(code, KeyModifiers::NONE));
        assert_eq!(plain(KeyCode::Char('q')), Some(WatchKey::Quit));
        assert_eq!(plain(KeyCode::Esc), Some(WatchKey::Quit));
        assert_eq!(plain(KeyCode::Char('c')), None);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(meaning(interrupt), Some(WatchKey::Quit));
        assert_eq!(plain(KeyCode::Tab), Some(WatchKey::Next));
        assert_eq!(plain(KeyCode::Left), Some(WatchKey::Previous));
        assert_eq!(plain(KeyCode::Char('x')), None);
    }
}
