//! Servers played from a script, for testing hosts: `mcpdeck mock FILE`.
