"""Tables that wagons return: rows that become one TTree, one RNTuple or one Parquet dataset of the train."""
