//! Tests of layers of any kind. They are one program, since each program takes long to link.

mod closing;
mod draining;
mod made;
