// Branches and fields that are filled from an archive, and read into an archive.
#ifndef BRANCHLINE_PEERS_DRIVER_H
#define BRANCHLINE_PEERS_DRIVER_H

#include <random>

#include "TBasket.h"
#include "TBranch.h"
#include "TTree.h"
#include "archive.h"

namespace peers {

/// An object that a branch or field is filled from, or read into.
struct Held {
  Slot slot;
  void* object;
  Source source;
  Sink sink;

  explicit Held(const Slot& of) : slot(of), object(of.make()) {}

  TBranch* attach(TTree& tree, const char* name, int basket_bytes, int split) {
    return tree.Branch(name, slot.type.c_str(), &object, basket_bytes, split);
  }
  void readFrom(TBranch& branch) { branch.SetAddress(&object); }
  void start(std::uintptr_t bytes) { source.at = reinterpret_cast<const char*>(bytes); }
  void put() { slot.take(source, object); }
  void got() { slot.give(sink, object); }
  std::uintptr_t bytesAt() const { return reinterpret_cast<std::uintptr_t>(sink.bytes.data()); }
  std::size_t bytesCount() const { return sink.bytes.size(); }
  void clear() { sink.bytes.clear(); }
};

/// Gives access to the protected members with the locations of baskets.
struct OpenBranch : TBranch {
  using TBranch::fBasketBytes;
  using TBranch::fBasketSeek;
};

/// Writes random values to the array elements for unwritten baskets. ROOT sometimes leaves uninitialised values there.
inline void spoilUnwritten(TBranch& branch, unsigned seed) {
  std::mt19937 random(seed);
  // Keep the element of a filled basket in memory, because ROOT would take its offset for the offset of a written
  // basket.
  auto* last = static_cast<TBasket*>(branch.GetListOfBaskets()->At(branch.GetWriteBasket()));
  bool isFilled = last && last->GetNevBuf() > 0;
  for (int slot = branch.GetWriteBasket() + isFilled; slot < branch.GetMaxBaskets(); ++slot) {
    (branch.*(&OpenBranch::fBasketSeek))[slot] = random() % 3 ? static_cast<int>(random()) : 0;
    (branch.*(&OpenBranch::fBasketBytes))[slot] = random() % 3 ? static_cast<int>(random()) : 0;
  }
}

}  // namespace peers

#endif
