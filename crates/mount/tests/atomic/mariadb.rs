//! MariaDB as it is: it finds what FusionIO's filesystem had, and writes no page twice.
