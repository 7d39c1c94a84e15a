"""Tables that wagons return: each table becomes one TTree, RNTuple or Parquet dataset per train."""
