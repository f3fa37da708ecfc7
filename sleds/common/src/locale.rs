//! Classifies bytes as characters according to the user's locale.
//!
//! The C library decides, so that the results equal those of other programs. Invariant of the unsafe code: the locale
//! is set once, before the first query, and never again ([`Locale::of_environment`] is the only constructor, and sets
//! the locale in a `OnceLock`).
#![allow(unsafe_code, reason = "the C library's locale has no safe interface")]

use std::ffi::{CStr, c_int, c_uint};
use std::sync::OnceLock;

/// Encoding of characters as bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Charset {
    /// One byte per character. In the C locale, bytes above 127 are not characters.
    SingleByte,
    /// UTF-8.
    Utf8,
    /// Another encoding with several bytes per character, possibly with states.
    Multibyte,
}

/// Result of decoding the beginning of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodedChar {
    /// This character, with this number of bytes (at least one).
    Char(u32, usize),
    /// Not a character.
    Invalid,
    /// Possibly a character with missing bytes.
    Incomplete,
}

/// The C library's state of a conversion between calls.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct ConversionState(
    /// Space for the `mbstate_t` of any C library (glibc and musl need 8 bytes). C defines all zeroes as the initial
    /// state.
    [u64; 16],
);

impl ConversionState {
    /// Returns true if the state is not the initial state.
    pub fn is_shifted(&self) -> bool {
        // SAFETY: the pointer is to a valid state for the duration of the call.
        unsafe { mbsinit(self) == 0 }
    }
}

unsafe extern "C" {
    // These functions look a number up in the locale's tables, and accept any number.
    safe fn iswprint(c: c_uint) -> c_int;
    safe fn iswspace(c: c_uint) -> c_int;
    safe fn wcwidth(c: libc::wchar_t) -> c_int;
    // These functions accept any number that is a byte.
    safe fn isprint(byte: c_int) -> c_int;
    safe fn isspace(byte: c_int) -> c_int;
    safe fn isalpha(byte: c_int) -> c_int;
    safe fn isupper(byte: c_int) -> c_int;
    safe fn islower(byte: c_int) -> c_int;
    safe fn isdigit(byte: c_int) -> c_int;
    safe fn isxdigit(byte: c_int) -> c_int;
    safe fn ispunct(byte: c_int) -> c_int;
    safe fn isalnum(byte: c_int) -> c_int;
    safe fn isgraph(byte: c_int) -> c_int;
    safe fn iscntrl(byte: c_int) -> c_int;
    safe fn isblank(byte: c_int) -> c_int;
    safe fn toupper(byte: c_int) -> c_int;
    safe fn towupper(c: c_uint) -> c_uint;
    safe fn btowc(c: c_int) -> c_uint;
    safe fn __ctype_get_mb_cur_max() -> usize;
    fn mbsinit(state: *const ConversionState) -> c_int;
    fn mbrtowc(
        out: *mut libc::wchar_t,
        bytes: *const libc::c_char,
        n: usize,
        state: *mut ConversionState,
    ) -> usize;
}

/// The locale from `LC_ALL`, `LC_CTYPE` and `LC_COLLATE`, or `LANG`; C if that locale is not installed.
#[derive(Clone, Copy, Debug)]
pub struct Locale {
    charset: Charset,
    orders_by_code: bool,
}

impl Locale {
    /// Returns the process's locale. The first call sets it.
    pub fn of_environment() -> Locale {
        static LOCALE: OnceLock<Locale> = OnceLock::new();
        *LOCALE.get_or_init(|| {
            set(libc::LC_CTYPE);
            let order = set(libc::LC_COLLATE);
            Locale {
                charset: charset(),
                orders_by_code: order.is_none_or(is_c),
            }
        })
    }

    /// Returns the encoding of characters.
    pub fn charset(self) -> Charset {
        self.charset
    }

    /// Returns true if characters are sorted by their codes.
    pub fn orders_by_code(self) -> bool {
        self.orders_by_code
    }

    /// Decodes the beginning of `bytes`, which must not be empty, from the initial state.
    pub fn decode(self, bytes: &[u8]) -> DecodedChar {
        self.decode_from(bytes, &mut ConversionState::default())
    }

    /// Decodes the beginning of `bytes`, which must not be empty, and advances `state`.
    pub fn decode_from(self, bytes: &[u8], state: &mut ConversionState) -> DecodedChar {
        let mut c: libc::wchar_t = 0;
        // SAFETY: all three pointers are valid for the duration of the call, and `n` is the length.
        let n = unsafe { mbrtowc(&raw mut c, bytes.as_ptr().cast(), bytes.len(), state) };
        match n {
            0 => DecodedChar::Char(0, 1),
            n if n == usize::MAX => DecodedChar::Invalid,
            n if n == usize::MAX - 1 => DecodedChar::Incomplete,
            n => DecodedChar::Char(c as u32, n),
        }
    }

    /// Returns the character that `byte` alone encodes.
    pub fn of_byte(self, byte: u8) -> Option<u32> {
        let c = btowc(c_int::from(byte));
        (c != u32::MAX).then_some(c)
    }

    /// Returns the result of `isprint`, which may differ from [`Locale::is_print`] of the character.
    pub fn byte_is_print(self, byte: u8) -> bool {
        isprint(c_int::from(byte)) != 0
    }

    /// Returns the result of `isspace`.
    pub fn byte_is_space(self, byte: u8) -> bool {
        isspace(c_int::from(byte)) != 0
    }

    /// Returns true if `byte` is in the class with this name, such as `alpha`.
    pub fn byte_is(self, class: &str, byte: u8) -> bool {
        let test = match class {
            "alpha" => isalpha,
            "upper" => isupper,
            "lower" => islower,
            "digit" => isdigit,
            "xdigit" => isxdigit,
            "space" => isspace,
            "punct" => ispunct,
            "alnum" => isalnum,
            "print" => isprint,
            "graph" => isgraph,
            "cntrl" => iscntrl,
            "blank" => isblank,
            _ => return false,
        };
        test(c_int::from(byte)) != 0
    }

    /// Returns the upper case of a byte.
    pub fn byte_upper(self, byte: u8) -> u8 {
        u8::try_from(toupper(c_int::from(byte))).unwrap_or(byte)
    }

    /// Returns true if a byte outside ASCII is a letter. In the C locale, and in encodings with several bytes per
    /// character, no such byte is a letter.
    pub fn has_wide_bytes(self) -> bool {
        self.charset == Charset::SingleByte && (0x80..=0xff).any(|byte| isalpha(byte) != 0)
    }

    /// Returns true if `İ` is the upper case of `i`, as in Turkish.
    pub fn has_dotted_capital(self) -> bool {
        self.charset == Charset::Utf8 && towupper(u32::from(b'i')) == 0x130
    }

    /// Returns the name of the encoding, such as `EUC-JP`.
    pub fn encoding(self) -> String {
        codeset().to_string_lossy().into_owned()
    }

    /// Returns the result of `iswprint`.
    pub fn is_print(self, c: u32) -> bool {
        iswprint(c) != 0
    }

    /// Returns the result of `iswspace`.
    pub fn is_space(self, c: u32) -> bool {
        iswspace(c) != 0
    }

    /// Returns the columns on a terminal; negative for an unprintable character.
    pub fn width(self, c: u32) -> i32 {
        wcwidth(c as libc::wchar_t)
    }
}

/// Sets `category` of the locale from the environment. Returns the locale's name; `None` if the locale is not
/// installed.
fn set(category: c_int) -> Option<&'static CStr> {
    // SAFETY: the string ends in a zero byte; by the module's invariant, no other code reads or sets the locale at this
    // time.
    let name = unsafe { libc::setlocale(category, c"".as_ptr()) };
    // SAFETY: the string lives until the category is set again, which does not happen.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })
}

/// Returns true if `name` is the C locale, in ASCII or UTF-8.
fn is_c(name: &CStr) -> bool {
    let name = name.to_bytes().to_ascii_uppercase();
    [&b"C"[..], b"POSIX", b"C.UTF-8", b"C.UTF8"].contains(&&name[..])
}

fn charset() -> Charset {
    if __ctype_get_mb_cur_max() == 1 {
        return Charset::SingleByte;
    }
    match codeset().to_bytes() {
        b"UTF-8" => Charset::Utf8,
        _ => Charset::Multibyte,
    }
}

fn codeset() -> &'static CStr {
    // SAFETY: the string belongs to the locale, which is not set again.
    unsafe { CStr::from_ptr(libc::nl_langinfo(libc::CODESET)) }
}
