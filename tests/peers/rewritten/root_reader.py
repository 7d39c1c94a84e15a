"""Read every branch of a tree with ROOT, and return one number for each leaf and each object."""

from __future__ import annotations

from typing import Any

# `branchline_read` adds all values that it reads to the number of their leaf or object, by name. It reads the leaves
# and objects that ROOT can show without libraries of experiments.
READER = r"""
#ifndef BRANCHLINE_REWRITTEN
#define BRANCHLINE_REWRITTEN
#include <TBranchElement.h>
#include <TBranchObject.h>
#include <TBufferJSON.h>
#include <TClass.h>
#include <TFile.h>
#include <TLeaf.h>
#include <TLeafC.h>
#include <TTree.h>
#include <cstring>
#include <map>
#include <string>
#include <vector>
typedef std::map<std::string, ULong64_t> BranchlineNumbers;
static void branchline_add(ULong64_t &number, const void *bytes, size_t size) {
   const unsigned char *at = static_cast<const unsigned char *>(bytes);
   for (size_t k = 0; k < size; ++k) number = (number ^ at[k]) * 1099511628211ull;
}
struct BranchlineObject { std::string name; TBranch *branch; TClass *kind; };
static void branchline_objects(TObjArray *branches, std::vector<BranchlineObject> &found) {
   for (TObject *one : *branches) {
      TBranch *branch = static_cast<TBranch *>(one);
      if (branch->GetListOfBranches()->GetEntriesFast()) {
         branchline_objects(branch->GetListOfBranches(), found);
         continue;
      }
      const char *name = nullptr;
      if (auto *element = dynamic_cast<TBranchElement *>(branch)) {
         if (element->GetID() < 0 || element->GetType() == 0) name = element->GetClassName();
         if (element->GetID() >= 0) continue; // of a member ROOT shows values
      } else if (branch->InheritsFrom("TBranchObject")) {
         name = branch->GetClassName();
      }
      TClass *kind = name && *name ? TClass::GetClass(name, true, true) : nullptr;
      if (kind && (kind->HasDictionary() || kind->GetCollectionProxy() || kind->GetStreamerInfos()->GetLast() >= 0))
         found.push_back({std::string("object ") + branch->GetFullName().Data(), branch, kind});
   }
}
long branchline_read(const char *path, const char *name, long first, long step, bool objects_too,
                     BranchlineNumbers &numbers) {
   TFile *file = TFile::Open(path);
   if (!file || file->IsZombie()) return -1;
   TTree *tree = dynamic_cast<TTree *>(file->Get(name));
   if (!tree) { delete file; return -2; }
   std::vector<BranchlineObject> objects;
   if (objects_too) branchline_objects(tree->GetListOfBranches(), objects);
   long count = 0;
   std::map<std::string, int> seen;
   std::vector<std::pair<ULong64_t *, TLeaf *>> leaves;
   for (TObject *one : *tree->GetListOfLeaves()) {
      TLeaf *leaf = static_cast<TLeaf *>(one);
      std::string full = std::string(leaf->GetBranch()->GetFullName().Data()) + "." + leaf->GetName();
      full += "#" + std::to_string(seen[full]++);
      leaves.push_back({&numbers[full], leaf});
   }
   for (long entry = 0; entry < tree->GetEntries(); ++entry) {
      // Those that are left out, too: where baskets leave offsets out ROOT goes wrong after a step over entries.
      Int_t size = tree->GetEntry(entry);
      if (size < 0) return -3;
      if (entry < first || (entry - first) % step) continue;
      branchline_add(numbers["GetEntry"], &size, sizeof size);
      for (auto &one : leaves) {
         TLeaf *leaf = one.second;
         if (leaf->InheritsFrom("TLeafObject")) continue;
         if (leaf->InheritsFrom("TLeafC")) {
            const char *text = static_cast<const char *>(leaf->GetValuePointer());
            if (text) branchline_add(*one.first, text, strlen(text));
            continue;
         }
         Int_t length = leaf->GetLen();
         branchline_add(*one.first, &length, sizeof length);
         for (Int_t k = 0; k < length; ++k) {
            double value = leaf->GetValue(k);
            branchline_add(*one.first, &value, sizeof value);
         }
      }
      for (auto &one : objects) {
         char **address = reinterpret_cast<char **>(one.branch->GetAddress());
         if (auto *element = dynamic_cast<TBranchElement *>(one.branch)) address = nullptr, (void)element;
         void *object = nullptr;
         if (auto *element = dynamic_cast<TBranchElement *>(one.branch)) object = element->GetObject();
         else if (address) object = *address;
         if (!object) continue;
         TString text = TBufferJSON::ConvertToJSON(object, one.kind, 3);
         branchline_add(numbers[one.name], text.Data(), text.Length());
      }
      ++count;
   }
   file->Close();
   delete file;
   return count;
}
#endif
"""


def declare(root: Any) -> None:
    """Compile the reader in ROOT."""
    if not root.gInterpreter.Declare(READER):
        raise AssertionError("ROOT cannot compile the reader")


def numbers_of(root: Any, files: list[str], tree: str, step: int, objects: bool) -> dict[str, int]:
    """Return the numbers of all leaves and objects of a tree in these files, from every ``step``-th entry."""
    numbers = root.BranchlineNumbers()
    count = 0
    for path in files:
        read = root.branchline_read(path, tree, 0, step, objects, numbers)
        if read < 0:
            raise AssertionError(f"ROOT cannot open {tree} of {path}")
        count += read
    found = {str(pair.first): int(pair.second) for pair in numbers}
    return {**found, "entries": count}
