// Functions for the tests: they write random RNTuples, and return the values that ROOT reads.

#pragma once

#include "types.h"

#include <cstdint>
#include <string>
#include <vector>

namespace peers {

struct Layout {
   int compression = 505;
   unsigned pageBytes = 1 << 20;
   bool checksums = true;
   unsigned clusters = 1;      // entries per cluster
   unsigned groups = 0;        // clusters per cluster group; 0 for a single group
   bool randomEncodings = true;
   bool attributes = false;    // whether to link an attribute set to the RNTuple
   unsigned maxKeySize = 0;    // maximum bytes per key; a larger blob is split into several keys; 0 for ROOT's default
   unsigned extendAt = 0;      // entry before which the late fields are added; 0 for none
};

// Names of all kinds of fields.
std::vector<std::string> Names();

// Writes an RNTuple with random values of the fields `names`. The fields `late` are added at the entry
// `layout.extendAt`.
void Write(const std::string &path, const std::vector<std::string> &names, const std::vector<std::string> &late,
           unsigned entries, std::uint64_t seed, const Layout &layout);

// Returns all values that ROOT reads of a field, as JSON. `name` is the kind of the field, and `full` its name in the
// file.
std::string Json(const std::string &path, const std::string &name, const std::string &full);

} // namespace peers
