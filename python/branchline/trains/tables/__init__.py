"""Tables that wagons return: their rows become one TTree, RNTuple or Parquet dataset per train."""
