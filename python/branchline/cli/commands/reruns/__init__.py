"""Commands that repeat earlier trains: `ledger`, `rerun` and `reproduce`."""
