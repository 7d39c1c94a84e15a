// What the tests call: files of random RNTuples, and what ROOT reads from them.

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
   unsigned clusters = 1;      // entries between two of them
   unsigned groups = 0;        // clusters between two groups; 0 for one group
   bool randomEncodings = true;
   bool attributes = false;    // whether a set of attributes is linked to it
   unsigned maxKeySize = 0;    // bytes of a key, beyond which a blob is cut into several; 0 for ROOT's own limit
   unsigned extendAt = 0;      // entry before which the late fields are added; 0 for none
};

// Names of all kinds of fields.
std::vector<std::string> Names();

// Writes these fields with random values, and from an entry on those that come late.
void Write(const std::string &path, const std::vector<std::string> &names, const std::vector<std::string> &late,
           unsigned entries, std::uint64_t seed, const Layout &layout);

// All values of a field of this kind as ROOT reads them, under the name that it has in the file.
std::string Json(const std::string &path, const std::string &name, const std::string &full);

} // namespace peers
