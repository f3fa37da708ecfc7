//! A safe wrapper of PCRE2.
//!
//! Invariant of the unsafe code: the pointers of a [`PcreCode`] are valid objects that PCRE2 made for it. No other code
//! uses them, and they are freed once, when the [`PcreCode`] is dropped.
#![allow(unsafe_code, reason = "PCRE2 is a library in C")]

use std::ops::Range;
use std::ptr::{self, NonNull};

use pcre2_sys::{
    PCRE2_CASELESS, PCRE2_DOLLAR_ENDONLY, PCRE2_ERROR_DEPTHLIMIT, PCRE2_ERROR_HEAPLIMIT,
    PCRE2_ERROR_JIT_STACKLIMIT, PCRE2_ERROR_MATCHLIMIT, PCRE2_ERROR_NOMATCH, PCRE2_ERROR_NOMEMORY,
    PCRE2_ERROR_RECURSELOOP, PCRE2_EXTRA_MATCH_LINE, PCRE2_JIT_COMPLETE, PCRE2_MATCH_INVALID_UTF,
    PCRE2_UTF, pcre2_code_8, pcre2_code_free_8, pcre2_compile_8, pcre2_compile_context_create_8,
    pcre2_compile_context_free_8, pcre2_get_error_message_8, pcre2_get_ovector_pointer_8,
    pcre2_jit_compile_8, pcre2_jit_stack_8, pcre2_jit_stack_assign_8, pcre2_jit_stack_create_8,
    pcre2_jit_stack_free_8, pcre2_maketables_8, pcre2_maketables_free_8, pcre2_match_8,
    pcre2_match_context_8, pcre2_match_context_create_8, pcre2_match_context_free_8,
    pcre2_match_data_8, pcre2_match_data_create_from_pattern_8, pcre2_match_data_free_8,
    pcre2_set_character_tables_8, pcre2_set_compile_extra_options_8,
};

use super::PerlOptions;

/// Bytes of the stack for PCRE2's machine code: initial and maximum.
const STACK_BYTES: [usize; 2] = [32 << 10, 1 << 30];

/// PCRE2 abandoned a search; contains its error number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct PcreError(i32);

impl PcreError {
    /// Returns the error in GNU grep's words.
    pub(in super::super) fn reason(self) -> String {
        let what = match self.0 {
            PCRE2_ERROR_NOMEMORY => "memory exhausted",
            PCRE2_ERROR_JIT_STACKLIMIT => "exhausted PCRE JIT stack",
            PCRE2_ERROR_MATCHLIMIT => "exceeded PCRE's backtracking limit",
            PCRE2_ERROR_DEPTHLIMIT => "exceeded PCRE's nested backtracking limit",
            PCRE2_ERROR_RECURSELOOP => "PCRE detected recurse loop",
            PCRE2_ERROR_HEAPLIMIT => "exceeded PCRE's heap limit",
            other => return format!("internal PCRE error: {other}"),
        };
        what.to_owned()
    }
}

/// A compiled pattern, and the objects for searching with it.
pub(super) struct PcreCode {
    code: NonNull<pcre2_code_8>,
    data: NonNull<pcre2_match_data_8>,
    context: NonNull<pcre2_match_context_8>,
    /// Stack of the machine code. Without it, the machine code has only a small stack.
    stack: Option<NonNull<pcre2_jit_stack_8>>,
    /// Classes and cases of bytes in the locale. In UTF-8, PCRE2 uses its own.
    _tables: Option<PcreTables>,
}

// SAFETY: PCRE2's objects may be used from any thread, as long as it is one at a time.
unsafe impl Send for PcreCode {}

impl PcreCode {
    pub(super) fn new(pattern: &[u8], options: PerlOptions) -> Result<PcreCode, String> {
        let tables = (!options.utf8).then(PcreTables::of_locale);
        let code = compile(pattern, options, tables.as_ref())?;
        let [first, most] = STACK_BYTES;
        // SAFETY: the code is valid. If it cannot be compiled to machine code, it is interpreted.
        let (data, context, stack) = unsafe {
            pcre2_jit_compile_8(code.as_ptr(), PCRE2_JIT_COMPLETE);
            (
                pcre2_match_data_create_from_pattern_8(code.as_ptr(), ptr::null_mut()),
                pcre2_match_context_create_8(ptr::null_mut()),
                pcre2_jit_stack_create_8(first, most, ptr::null_mut()),
            )
        };
        let (Some(data), Some(context)) = (NonNull::new(data), NonNull::new(context)) else {
            std::alloc::handle_alloc_error(std::alloc::Layout::new::<PcreCode>());
        };
        // SAFETY: the context is valid; the stack lives as long, or is null, which selects a small stack.
        unsafe { pcre2_jit_stack_assign_8(context.as_ptr(), None, stack.cast()) };
        Ok(PcreCode {
            code,
            data,
            context,
            stack: NonNull::new(stack),
            _tables: tables,
        })
    }

    /// Returns the first match at or after `from` in `text`.
    pub(super) fn find(
        &mut self,
        text: &[u8],
        from: usize,
    ) -> Result<Option<Range<usize>>, PcreError> {
        // SAFETY: by the module's invariant; the text has the given length.
        let code = unsafe {
            pcre2_match_8(
                self.code.as_ptr(),
                text.as_ptr(),
                text.len(),
                from,
                0,
                self.data.as_ptr(),
                self.context.as_ptr(),
            )
        };
        match code {
            1.. => Ok(Some(self.found())),
            PCRE2_ERROR_NOMATCH => Ok(None),
            error => Err(PcreError(error)),
        }
    }

    /// Returns the range of the last match.
    fn found(&self) -> Range<usize> {
        // SAFETY: after a match, the vector has at least one pair.
        let [start, end] = unsafe {
            let pair = pcre2_get_ovector_pointer_8(self.data.as_ptr());
            [*pair, *pair.add(1)]
        };
        start..end.max(start)
    }
}

/// Compiles a pattern. The caller owns the result.
fn compile(
    pattern: &[u8],
    options: PerlOptions,
    tables: Option<&PcreTables>,
) -> Result<NonNull<pcre2_code_8>, String> {
    let mut flags = PCRE2_DOLLAR_ENDONLY;
    if options.icase {
        flags |= PCRE2_CASELESS;
    }
    if options.utf8 {
        flags |= PCRE2_UTF | PCRE2_MATCH_INVALID_UTF;
    }
    // SAFETY: makes a new context, freed below.
    let settings = unsafe { pcre2_compile_context_create_8(ptr::null_mut()) };
    let settings = NonNull::new(settings).ok_or("memory exhausted")?;
    let (mut error, mut at) = (0, 0);
    // SAFETY: the caller keeps the tables as long as the code; the pattern has the given length, the output arguments
    // are valid, and the context is not used again.
    let code = unsafe {
        if options.whole_lines {
            pcre2_set_compile_extra_options_8(settings.as_ptr(), PCRE2_EXTRA_MATCH_LINE);
        }
        if let Some(tables) = tables {
            pcre2_set_character_tables_8(settings.as_ptr(), tables.0);
        }
        let (start, length) = (pattern.as_ptr(), pattern.len());
        let code = pcre2_compile_8(
            start,
            length,
            flags,
            &raw mut error,
            &raw mut at,
            settings.as_ptr(),
        );
        pcre2_compile_context_free_8(settings.as_ptr());
        code
    };
    NonNull::new(code).ok_or_else(|| message(error))
}

impl Drop for PcreCode {
    fn drop(&mut self) {
        // SAFETY: by the module's invariant.
        unsafe {
            if let Some(stack) = self.stack {
                pcre2_jit_stack_free_8(stack.as_ptr());
            }
            pcre2_match_context_free_8(self.context.as_ptr());
            pcre2_match_data_free_8(self.data.as_ptr());
            pcre2_code_free_8(self.code.as_ptr());
        }
    }
}

/// PCRE2's tables for the C library's locale.
struct PcreTables(*const u8);

impl PcreTables {
    fn of_locale() -> PcreTables {
        // SAFETY: without a context, PCRE2 allocates with the C library.
        PcreTables(unsafe { pcre2_maketables_8(ptr::null_mut()) })
    }
}

impl Drop for PcreTables {
    fn drop(&mut self) {
        // SAFETY: the tables were made without a context, and are no longer in use.
        unsafe { pcre2_maketables_free_8(ptr::null_mut(), self.0) }
    }
}

/// Returns PCRE2's text for an error in a pattern.
fn message(error: i32) -> String {
    let mut text = [0; 256];
    // SAFETY: the buffer has the given length.
    let len = unsafe { pcre2_get_error_message_8(error, text.as_mut_ptr(), text.len()) };
    let len = usize::try_from(len).unwrap_or(0);
    String::from_utf8_lossy(&text[..len]).into_owned()
}
